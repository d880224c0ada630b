use samebits::Tensor;
use samebits::functional as f;
use workspace_tests::normal_of;

use super::{Batches, Make};

pub(super) fn add(batches: &mut Batches, make: Make) {
    let inputs = |shape: &[usize], own: &[usize]| {
        vec![make.each(shape, 60), make.shared(own, 61), make.shared(own, 62)]
    };
    batches.add(make.name("layer_norm"), inputs(&[40, 5, 91], &[5, 91]), |x| {
        Ok(vec![f::layer_norm(&x[0], &[5, 91], Some(&x[1]), Some(&x[2]), 1e-5)?])
    });
    batches.add(make.name("group_norm"), inputs(&[5, 12, 20, 13], &[12]), |x| {
        Ok(vec![f::group_norm(&x[0], 4, Some(&x[1]), Some(&x[2]), 1e-5)?])
    });
    batches.add(make.name("instance_norm"), inputs(&[5, 12, 20, 13], &[12]), |x| {
        Ok(vec![f::instance_norm(&x[0], Some(&x[1]), Some(&x[2]), 1e-5)?.0])
    });
    let (mean, var) = (normal_of(&[12], make.0, 63), normal_of(&[12], make.0, 64));
    batches.add(make.name("batch_norm_inference"), inputs(&[5, 12, 20, 13], &[12]), move |x| {
        let var = Tensor::from(var.clone()).square()?;
        let (weight, bias) = (Some(&x[1]), Some(&x[2]));
        Ok(vec![f::batch_norm_inference(&x[0], weight, bias, &Tensor::from(&mean), &var, 1e-5)?])
    });
}
