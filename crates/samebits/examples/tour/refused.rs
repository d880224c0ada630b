//! An operation that promises less than the caller requires is refused, or warned about.

use samebits::determinism::{self, scope, scope_warn_only};
use samebits::prelude::*;
use samebits::{Error, Function, Result, Save, Saved};

/// A sum whose threads add as they come. (Here it adds in order, so that the example has one
/// result.)
struct FastSum;

impl Function for FastSum {
    const NAME: &'static str = "fast_sum";
    const LEVEL: Determinism = Determinism::NotGuaranteed;
    const WHY: &'static str = "threads add as they come";

    fn forward(&self, inputs: &[Tensor], _: &mut Save) -> Result<Vec<Tensor>> {
        Ok(vec![Tensor::scalar(inputs[0].to_vec::<f32>()?.iter().sum::<f32>())])
    }

    fn backward(&self, saved: &Saved<'_>, grads: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(grads[0].expand(saved.input_shape(0)?)?)])
    }
}

pub(super) fn run() -> super::Result<()> {
    let x = Tensor::new([1.0f32, 2.0, 4.0])?.set_requires_grad(true)?;
    let sum = || -> Result<Tensor> {
        let [sum] = FastSum.apply(&[&x])?;
        Ok(sum)
    };
    // The level in force without further words is the highest.
    assert_eq!(determinism::required(), Determinism::Portable);
    let error = sum().unwrap_err();
    println!("{error}");
    assert!(matches!(error, Error::LevelUnavailable { best: Determinism::NotGuaranteed, .. }));

    // Permitted for a part of the program, and with a warning.
    let permitted = scope(Determinism::NotGuaranteed, sum)?;
    let warned = scope_warn_only(Determinism::Portable, sum)?;
    assert_eq!([permitted.item::<f32>()?, warned.item::<f32>()?], [7.0, 7.0]);

    // A backward pass obeys the level in force when it runs.
    assert!(permitted.backward().is_err());
    let gradients = scope(Determinism::NotGuaranteed, || permitted.backward())?;
    assert_eq!(gradients.of(&x).ok_or("no gradient")?.to_vec::<f32>()?, [1.0; 3]);
    Ok(())
}
