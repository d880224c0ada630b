//! Properties of geometries, and the weights of resizing against their definition.

use samebits_tensor_core::geometry::{
    ConvParams, Convolution, GridMode, GridPadding, GridParams, InterpolateMode, PoolParams,
    Resize, ResizedAxis, Sampling,
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

#[test]
fn convolutions_that_do_not_match_are_refused_with_both_sides() {
    let two = ConvParams::padded(2, 0);
    let refused = |input: &[usize], weight: &[usize], params: &ConvParams| {
        Convolution::new("a_name", input, weight, params).unwrap_err().to_string()
    };
    let (input, weight) = ([1, 3, 8, 8], [4, 3, 3, 3]);
    for (text, message) in [
        (
            refused(&[1, 2, 8, 8], &weight, &two),
            "a_name: input [1, 2, 8, 8] has 2 channels, but weight [4, 3, 3, 3] with 1 groups takes 3",
        ),
        (
            refused(&[1, 3, 2, 8], &weight, &two),
            "a_name: a kernel of size 3 with dilation 1 does not fit the padded size 2 of spatial \
             dimension 0",
        ),
        (
            refused(&[1, 3, 8], &weight, &two),
            "a_name: expected input and weight with 4 dimensions, got [1, 3, 8] and [4, 3, 3, 3]",
        ),
        (
            refused(&input, &weight, &ConvParams { padding: vec![1], ..two.clone() }),
            "a_name: stride [1, 1], padding [1] and dilation [1, 1] need one entry per spatial \
             dimension, 1 to 3",
        ),
        (
            refused(&input, &weight, &ConvParams { stride: vec![1, 0], ..two.clone() }),
            "a_name: stride [1, 0], dilation [1, 1] and groups 1 must be at least 1",
        ),
        (
            refused(&[1, 3, 0, 8], &weight, &two),
            "a_name: input [1, 3, 0, 8] and weight [4, 3, 3, 3] must have no size of 0 but the batch",
        ),
        (
            refused(&[1, 0, 8, 8], &[4, 0, 3, 3], &two),
            "a_name: input [1, 0, 8, 8] and weight [4, 0, 3, 3] must have no size of 0 but the batch",
        ),
        (
            refused(&input, &[4, 1, 3, 3], &ConvParams { groups: 3, ..two.clone() }),
            "a_name: 4 output channels of weight [4, 1, 3, 3] do not divide into 3 groups",
        ),
        (
            refused(&input, &weight, &ConvParams { padding: vec![1 << 62, 1], ..two.clone() }),
            "a_name: padding 4611686018427387904 makes spatial dimension 0 of input [1, 3, 8, 8] too \
             large",
        ),
    ] {
        assert_eq!(text, message);
    }
    let text = refused(&[usize::MAX / 8, 3, 8, 8], &weight, &two);
    assert!(text.ends_with("make too many elements"), "{text}");
    let empty = Convolution::new("a_name", &[0, 3, 8, 8], &weight, &two).unwrap();
    assert_eq!((empty.output_shape(), empty.sizes().output_len()), (vec![0, 4, 6, 6], 0));
}

#[test]
fn a_transposed_convolution_has_the_input_that_the_forward_one_maps_to_its_own() {
    for stride in 1..=3 {
        for (padding, dilation, more) in [(0, 1, 0), (1, 2, 1), (2, 3, 2), (0, 3, 1)] {
            if more >= stride.max(dilation) {
                continue;
            }
            let params = ConvParams {
                stride: vec![stride],
                dilation: vec![dilation],
                groups: 2,
                ..ConvParams::padded(1, padding)
            };
            let (input, weight) = ([5, 4, 7], [4, 3, 3]);
            let (conv, zeros) =
                Convolution::transposed("a_name", &input, &weight, &params, &[more]).unwrap();
            let size = 6 * stride + 2 * dilation + 1 + more - 2 * padding;
            assert_eq!(conv.input_shape(), [5, 6, size], "{params:?}");
            assert_eq!(conv.output_shape(), [5, 4, 7 + zeros[0]], "{params:?}");
            assert_eq!((conv.weight_shape(), zeros[0]), (weight.to_vec(), more / stride));
        }
    }
    let params = ConvParams::padded(1, 0);
    let refused = |input: &[usize], more: &[usize]| {
        Convolution::transposed("a_name", input, &[4, 3, 3], &params, more).unwrap_err().to_string()
    };
    for (text, why) in [
        (refused(&[5, 4, 7], &[1]), "output padding must be below the stride or the dilation"),
        (refused(&[5, 4, 7], &[]), "output padding needs one entry per spatial dimension"),
        (refused(&[5, 3, 7], &[0]), "input and weight need the same number of channels"),
        (refused(&[5, 4, 0], &[0]), "the result would be empty or too large"),
    ] {
        assert!(text.starts_with(&format!("a_name: {why}: input [5, ")), "{text}");
    }
}
