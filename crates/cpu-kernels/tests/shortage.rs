//! A shortage of memory in every kernel that allocates: an error, and the next call works. The
//! limit applies to the process, so this is a single test in its own program.

mod invariance;

use std::fmt::{Debug, Display};

use invariance::{bits, on_threads};
use samebits_cpu_kernels::conv::{self, ConvParams, Convolution};
use samebits_cpu_kernels::conv_algorithms::{Algorithm, ConvPass};
use samebits_cpu_kernels::linalg;
use samebits_cpu_kernels::matmul::{Matrix, matmul};
use samebits_cpu_kernels::recurrent::{self, Cell, Gates, Layer, Outputs};
use samebits_numerics::memory;
use test_support::at_every_level;

/// Runs `f` with too little memory, then with enough, each on threads without buffers.
#[track_caller]
fn short<E: Debug + Display + Send>(what: &str, f: impl Fn() -> Result<Vec<f32>, E> + Sync) {
    for threads in [1, 3] {
        on_threads(threads, || {
            memory::set_limit(Some(1));
            let error = f().unwrap_err().to_string();
            memory::set_limit(None);
            assert!(error.contains("no memory left for"), "{what}: {error}");
            assert!(error.starts_with(what), "{what}: {error}");
            let found = f().unwrap();
            assert_eq!(bits(&f().unwrap()), bits(&found), "{what}");
        });
    }
}

/// Buffers of a dilated convolution stay within three times the source in each dimension, or one
/// block of positions in vectors: taps that always lie in the padding are not copied.
fn dilated_convolutions_copy_little() {
    const SIZE: usize = 64;
    let ones = vec![1.0f32; SIZE * SIZE];
    for dilation in [1, 2, 7, SIZE / 2, SIZE - 1, SIZE, 1000, 1 << 40] {
        let params = ConvParams {
            padding: vec![dilation; 2],
            dilation: vec![dilation; 2],
            ..ConvParams::padded(2, 0)
        };
        let conv = Convolution::new("conv", &[1, 1, SIZE, SIZE], &[1, 1, 3, 3], &params).unwrap();
        on_threads(1, || {
            let (mut forward, mut backward) = (ones.clone(), ones.clone());
            let mut weight = [0.0; 9];
            memory::set_limit(Some(9 * size_of_val(&ones[..]) + 1024));
            conv::forward(&conv, &ones, &ones[..9], None, &mut forward).unwrap();
            conv::input_grad(&conv, &ones, &ones[..9], &mut backward).unwrap();
            conv::weight_grad(&conv, &ones, &ones, &mut weight).unwrap();
            memory::set_limit(None);
            // A tap reaches equally many positions from both sides.
            assert_eq!(bits(&forward), bits(&backward), "dilation {dilation}");
            assert_eq!(weight.iter().sum::<f32>(), forward.iter().sum(), "dilation {dilation}");
        });
    }
}

#[test]
fn a_shortage_is_an_error_and_the_next_call_works() {
    at_every_level(|_| {
        dilated_convolutions_copy_little();
        every_kernel_reports_a_shortage();
    });
}

fn every_kernel_reports_a_shortage() {
    let ones = vec![1.0f32; 1 << 16];
    // Products of up to four rows or columns may take no memory.
    for (m, n, k) in [(200, 200, 200), (5, 300, 100), (9, 6, 100)] {
        short("matmul: ", || {
            let mut out = vec![0.0; m * n];
            let a = Matrix::new(&ones, m, k).unwrap();
            matmul(a, Matrix::with_strides(&ones, k, n, 1, k).unwrap(), &mut out)?;
            Ok::<_, samebits_cpu_kernels::matmul::Error>(out)
        });
    }
    for (input, kernel) in
        [([2, 3, 20, 20], [4, 3, 3, 3]), ([2, 6, 9, 9], [6, 1, 3, 3]), ([1, 8, 9, 9], [4, 8, 1, 1])]
    {
        let numel = |shape: &[usize]| shape.iter().product::<usize>();
        let groups = input[1] / kernel[1];
        let params = ConvParams { padding: vec![1, 1], groups, ..ConvParams::padded(2, 0) };
        let conv = Convolution::new("conv", &input, &kernel, &params).unwrap();
        let plan = &Convolution::new("conv", &input, &kernel, &params).unwrap();
        let outputs = numel(&conv.output_shape());
        let [x, w, g] = [numel(&input), numel(&kernel), outputs].map(|len| &ones[..len]);
        for algorithm in Algorithm::ALL {
            let applies = |pass| algorithm.applies(plan, pass);
            if applies(ConvPass::Forward) {
                short("conv: ", || {
                    let mut out = vec![0.0; outputs];
                    algorithm.forward(plan, x, w, None, &mut out).map(|()| out)
                });
            }
            if applies(ConvPass::InputGrad) {
                short("conv: ", || {
                    let mut out = vec![0.0; x.len()];
                    algorithm.input_grad(plan, g, w, &mut out).map(|()| out)
                });
            }
            if applies(ConvPass::WeightGrad) {
                short("conv: ", || {
                    let mut out = vec![0.0; w.len()];
                    algorithm.weight_grad(plan, x, g, &mut out).map(|()| out)
                });
            }
        }
        short("conv: ", || {
            let mut out = vec![0.0; w.len()];
            conv::weight_grad_unordered(&conv, x, g, &mut out).map(|()| out)
        });
    }
    let (rows, size) = (3, 5);
    short("qr: ", || {
        let (mut q, mut r) = (vec![0.0; 15], vec![0.0; 9]);
        linalg::qr(&ones[..15], [5, 3], 3, &mut q, &mut r).map(|()| q)
    });
    short("qr: ", || {
        let (mut q, mut r) = (vec![0.0; 160], vec![0.0; 128]);
        linalg::qr_batched(&[1.0; 160], [8, 5, 4], 4, &mut q, &mut r).map(|()| q)
    });
    short("svd: ", || {
        let (mut u, mut s, mut v) = (vec![0.0; 15], [0.0; 3], [0.0; 9]);
        linalg::svd(&ones[..15], [5, 3], &mut u, &mut s, &mut v).map(|()| u)
    });
    short("lstm_cell: ", || {
        let gates = Gates { x: &ones[..60], h: &ones[..60], bias_x: None, bias_h: None };
        let (mut hidden, mut next, mut kept) = ([0.0; 15], vec![0.0; 15], [0.0; 60]);
        recurrent::lstm_cell(size, gates, &ones[..15], &mut hidden, &mut next, &mut kept)
            .map(|()| next)
    });
    short("recurrent_layer: ", || {
        let layer = Layer {
            cell: Cell::Tanh,
            reverse: false,
            batch_sizes: &[rows],
            size,
            state: size,
            gates: &ones[..15],
            weight_hh: &ones[..25],
            bias_x: None,
            bias_h: None,
            weight_hr: None,
            hidden: &ones[..15],
            cells: None,
        };
        let (mut output, mut hidden) = (vec![0.0; 15], [0.0; 15]);
        let outputs =
            Outputs { output: &mut output, hidden: &mut hidden, cells: &mut [], kept: None };
        recurrent::forward(&layer, outputs).map(|()| output)
    });
}
