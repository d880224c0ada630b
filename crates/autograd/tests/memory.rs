//! A shortage of memory is an error that names the function; the stack suffices for any graph.

use samebits_autograd::functional::{
    add, affine_grid, bincount, histc, mul, neg, repeat_interleave,
};
use samebits_autograd::sparse::SparseCoo;
use samebits_autograd::{DType, Device, Error, Result, Tensor};
use samebits_tensor_core::dispatch;
use samebits_tensor_core::geometry::BagBounds;
use samebits_tensor_core::ops::{BagMode, BagParams, EmbeddingBagGrad, EmbeddingGrad};
use test_support::allocations::{Counting, asked};

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_small_operation_asks_for_its_result_alone() {
    let x = Tensor::from_slice(&[1.5f32; 10], &[10]).unwrap();
    let times = || asked(|| add(&x, &x).unwrap())[0];
    // The first call allocates what is made once per process or thread.
    times();
    // The elements, and the tensor's reference count.
    assert_eq!(times(), 2);
}

#[test]
fn a_grid_of_more_points_than_memory_holds_is_refused() {
    let theta = Tensor::zeros(&[1, 2, 3], DType::F32).unwrap();
    let error = affine_grid(&theta, &[1, 1, 1 << 24, 1 << 24], false).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { op: "affine_grid", .. }), "{error}");
}

#[test]
fn sizes_that_values_and_parameters_ask_for_are_refused_as_all_others() {
    let rows = 1 << 48;
    let missing = |name: &str, error: Option<Error>| match error {
        Some(Error::OutOfMemory { op, device: Device::Cpu, bytes }) => {
            assert_eq!((op, bytes), (name, 8 * rows));
        }
        other => panic!("{name}: {other:?}"),
    };
    let largest = Tensor::from_slice(&[rows as i64 - 1], &[1]).unwrap();
    let ones = Tensor::ones(&[1], DType::F64).unwrap();
    missing("bincount", bincount(&largest, None, 0).err());
    missing("bincount", bincount(&largest, Some(&ones), 0).err());
    missing("histc", histc(&ones, rows, 0.0, 1.0).err());
    let (index, grad) = (Tensor::zeros(&[1], DType::I64).unwrap(), ones.reshape([1, 1]).unwrap());
    let table = EmbeddingGrad {
        grad: grad.value().clone(),
        index: index.value().clone(),
        rows,
        padding_idx: None,
        scale_grad_by_freq: false,
    };
    missing("embedding", dispatch(&table).err());
    let bags = EmbeddingBagGrad {
        grad: grad.value().clone(),
        index: index.value().clone(),
        bags: BagBounds::of_size("embedding_bag", 1, 1).unwrap().into(),
        per_sample_weights: None,
        max_rows: None,
        params: BagParams { mode: BagMode::Sum, padding_idx: None },
        rows,
        scale_grad_by_freq: false,
    };
    missing("embedding_bag", dispatch(&bags).err());
    let wide = ones.expand(&[rows]).unwrap();
    missing("repeat_interleave", repeat_interleave(&wide, &index, 0).err());
    let empty = SparseCoo::new(
        &Tensor::zeros(&[2, 0], DType::I64).unwrap(),
        &Tensor::zeros(&[0], DType::F64).unwrap(),
        &[rows - 1, 1],
    );
    missing("to_csr", empty.unwrap().to_csr().err());
}

/// With one call per link, a test thread's 2 MiB of stack would overflow.
#[test]
fn long_graphs_are_walked_and_freed() {
    const LINKS: usize = 100_000;
    let x = Tensor::scalar(1.0f32).set_requires_grad(true).unwrap();
    let chain = |link: &dyn Fn(&Tensor) -> Result<Tensor>| {
        (0..LINKS).try_fold(x.clone(), |y, _| link(&y)).unwrap()
    };
    let gradient = |y: &Tensor| y.backward().unwrap().of(&x).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(gradient(&chain(&neg)), [1.0]);
    // A link that keeps its inputs, and each of them twice.
    assert_eq!(gradient(&chain(&|y| mul(y, &x))), [1.0 + LINKS as f32]);
    assert_eq!(gradient(&chain(&|y| mul(y, y))), [f32::INFINITY]);
    // A graph of gradients, which also holds the graph of the values.
    let gradients = chain(&|y| mul(y, &x)).backward_from(Tensor::scalar(1.0f32), true).unwrap();
    assert!(gradients.of(&x).unwrap().requires_grad());
    // A graph that is never walked.
    drop(chain(&neg));
}
