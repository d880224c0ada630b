use samebits::dispatch;
use samebits::functional as f;
use samebits::ops::CumprodGradGrad;

use super::{Batches, Make, plain};

pub(super) fn add(batches: &mut Batches, make: Make) {
    for (shape, dim) in [(vec![5, 40_007], 1), (vec![33, 500], 1), (vec![9, 2050, 7], 1)] {
        let x = || make.each(&shape, 120);
        let name = |op: &str| make.name(&format!("{op} {shape:?}"));
        batches.one(name("cumsum"), x(), move |x| f::cumsum(x, dim));
        // Near one, so that products neither vanish nor overflow.
        batches.one(name("cumprod"), x(), move |x| f::cumprod(&x.affine(0.01, 1.0)?, dim));
        batches.one(name("logcumsumexp"), x(), move |x| f::logcumsumexp(x, dim));
        batches.add(name("cummax, cummin"), [x()], move |x| {
            let ((largest, place), (least, other)) =
                (f::cummax(&x[0], dim)?, f::cummin(&x[0], dim)?);
            Ok(vec![largest, place, least, other])
        });
        let inputs = [x(), make.each(&shape, 121), make.each(&shape, 122)];
        batches.add(name("cumprod, twice"), inputs, move |x| {
            let (outer, grad) = (x[0].value().clone(), x[1].value().clone());
            let x = x[2].detach().affine(0.01, 1.0)?.value().clone();
            let (of_grad, of_x) = dispatch(&CumprodGradGrad { outer, grad, x, dim })?;
            Ok(vec![plain(of_grad), plain(of_x)])
        });
    }
}
