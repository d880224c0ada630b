use samebits::functional as f;
use workspace_tests::indices;

use super::check;

#[test]
fn normalisation_and_losses() {
    check("batch_norm", &[&[3, 2, 4], &[2], &[2]], &|x| {
        Ok(f::batch_norm(&x[0], &x[1], &x[2], 1e-3)?.0)
    });
    check("layer_norm", &[&[3, 2, 4], &[2, 4], &[2, 4]], &|x| {
        f::layer_norm(&x[0], &x[1], &x[2], 1e-3)
    });
    let target = indices(4, 5, 3);
    check("nll_loss", &[&[4, 5]], &|x| f::nll_loss(&x[0], &target));
}
