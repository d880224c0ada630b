//! Properties of geometries, and the weights of resizing against their definition.

use samebits_tensor_core::geometry::{
    GridMode, GridPadding, GridParams, InterpolateMode, PoolParams, Resize, ResizedAxis, Sampling,
};

#[test]
fn geometries_carry_the_name_of_their_operation() {
    let params =
        GridParams { mode: GridMode::Linear, padding: GridPadding::Zeros, align_corners: false };
    let sampling = Sampling::new("a_name", &[2, 3, 4, 5], &[2, 6, 7, 2], params).unwrap();
    assert_eq!((sampling.op(), sampling.output_shape()), ("a_name", &[2, 3, 6, 7][..]));
    let params = PoolParams { stride: vec![2, 1], padding: vec![1, 1], ..PoolParams::square(2, 3) };
    assert_eq!(params.output_shape("a_name", &[2, 3, 4, 5]).unwrap(), [2, 3, 2, 5]);
    let error = params.output_shape("a_name", &[4, 5]).unwrap_err().to_string();
    assert!(error.starts_with("a_name: "), "{error}");
}

fn axis(input: usize, output: usize, mode: InterpolateMode) -> ResizedAxis {
    *Resize::new("a_name", &[1, 1, input], &[output], &[None], mode).unwrap().axes().last().unwrap()
}

/// Half as many elements: the kernels are twice as wide.
#[test]
fn antialiased_weights_are_the_kernel_at_the_distances() {
    let triangle = [0.75, 0.75, 0.25, 0.0];
    // (1.5 x - 2.5) x^2 + 1 below 1, and ((-0.5 x + 2.5) x - 4) x + 2 up to 2.
    let cubic = [0.8671875, 0.8671875, 0.2265625, -0.0703125];
    for (mode, kernel) in [
        (InterpolateMode::LinearAntialias { align_corners: false }, triangle),
        (InterpolateMode::CubicAntialias { align_corners: false }, cubic),
    ] {
        let taps = axis(4, 2, mode).taps().unwrap();
        let total: f64 = kernel.iter().sum();
        let weights: Vec<(usize, f64)> =
            (0..4).map(|i| (i, kernel[i] / total)).filter(|&(_, weight)| weight != 0.0).collect();
        assert_eq!(taps.of(0).collect::<Vec<_>>(), weights, "{mode:?}");
        // The second output is the mirror image.
        let mut mirrored: Vec<_> = taps.of(1).map(|(i, weight)| (3 - i, weight)).collect();
        mirrored.reverse();
        assert_eq!(mirrored, weights, "{mode:?}");
    }
}
