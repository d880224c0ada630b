//! A shortage of memory is an error, and nothing is half-changed.

use samebits_numerics::memory::set_limit;
use samebits_tensor_core::buffer::{cache_stats, empty_cache, set_cache_limit};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{DType, Device, Error, Kernel, Op, Pass, Result, Tensor, dispatch};

fn bytes_missing<T: std::fmt::Debug>(op: &str, result: Result<T>) -> usize {
    match result.expect_err(op) {
        Error::OutOfMemory { op: name, device: Device::Cpu, bytes } if name == op => bytes,
        other => panic!("{op}: {other}"),
    }
}

#[test]
fn constructors_say_what_they_cannot_have() {
    let n = 1 << 50;
    for (dtype, bytes) in [(DType::F32, n << 2), (DType::I64, n << 3), (DType::Bool, n)] {
        let shape = &[n / 2, 2];
        for (op, made) in [
            ("zeros", Tensor::zeros(shape, dtype)),
            ("ones", Tensor::ones(shape, dtype)),
            ("full", Tensor::full(shape, 7.0, dtype)),
            ("empty", Tensor::empty(shape, dtype)),
            ("empty", Tensor::empty_strided(&[n], &[1], dtype)),
            ("scratch", Tensor::scratch(shape, dtype)),
        ] {
            assert_eq!(bytes_missing(op, made), bytes);
        }
    }
    assert_eq!(bytes_missing("arange", Tensor::arange(n)), n << 3);
}

#[test]
fn what_cannot_be_counted_is_an_invalid_argument() {
    for shape in [&[usize::MAX][..], &[1 << 40, 1 << 40], &[0, usize::MAX, 2]] {
        for (op, made) in [
            ("zeros", Tensor::zeros(shape, DType::U8)),
            ("ones", Tensor::ones(shape, DType::U8)),
            ("full", Tensor::full(shape, 7.0, DType::U8)),
            ("empty", Tensor::empty(shape, DType::U8)),
            ("scratch", Tensor::scratch(shape, DType::U8)),
            ("resize_", {
                let mut one = Tensor::scalar(1u8);
                one.resize_(shape).map(|()| one)
            }),
        ] {
            let text = format!("{op}: shape {shape:?} has too many elements");
            assert_eq!(made.unwrap_err().to_string(), text);
        }
    }
    let text = format!("arange: shape [{}] has too many elements", usize::MAX);
    assert_eq!(Tensor::arange(usize::MAX).unwrap_err().to_string(), text);
}

#[test]
fn a_view_of_one_element_cannot_be_written_out() {
    let n = 1 << 44;
    let mut wide = Tensor::scalar(1.0f32).expand(&[n]).unwrap();
    assert_eq!(bytes_missing("contiguous", wide.contiguous()), n << 2);
    assert_eq!(bytes_missing("contiguous", wide.to_vec::<f32>()), n << 2);
    assert_eq!(bytes_missing("contiguous", wide.to_bytes()), n << 2);
    assert_eq!(bytes_missing("contiguous", wide.reshape(&[n / 2, 2])), n << 2);
    assert_eq!(bytes_missing("contiguous", wide.to(Device::Cuda(7))), n << 2);
    assert_eq!(bytes_missing("contiguous", wide.resize_(&[2])), n << 2);
    assert_eq!(wide.shape(), [n]);
    assert_eq!(
        wide.item::<f32>().unwrap_err().to_string(),
        format!("item: a tensor of shape [{n}] has {n} elements, not 1"),
    );
    // Reading one element still works.
    assert_eq!(wide.select(0, n - 1).unwrap().item::<f32>().unwrap(), 1.0);
}

#[derive(Debug)]
struct Copy(Tensor);

impl Op for Copy {
    type Plan = ();
    type Output = Tensor;
    const NAME: &'static str = "copy";
    const PASS: Pass = Pass::Forward;
    samebits_tensor_core::inputs![0];
    fn plan(&self) -> Result<()> {
        Ok(())
    }
}

/// A single test, because the limits apply to the process.
#[test]
fn a_shortage_leaves_everything_as_it_was() {
    register(Kernel::portable("copy", &[DType::F32], "no arithmetic", |op: &Copy, ()| {
        op.0.contiguous()
    }));
    let n = 1 << 20;
    let mut x = Tensor::arange(n).unwrap();
    let shared = x.clone();
    let wide = Tensor::scalar(2.0f32).expand(&[n]).unwrap();
    empty_cache();
    set_limit(Some(1 << 20));

    // The copy before a write.
    assert_eq!(bytes_missing("as_mut_slice", x.as_mut_slice::<i64>().map(|_| ())), n << 3);
    assert_eq!(x.as_slice::<i64>().unwrap()[n - 1], n as i64 - 1);
    assert_eq!(bytes_missing("resize_", x.resize_(&[n + 1])), (n + 1) << 3);
    assert_eq!(x.shape(), [n]);
    assert_eq!(bytes_missing("to_vec", x.to_vec::<i64>()), n << 3);
    assert_eq!(bytes_missing("to_bytes", x.to_bytes()), n << 3);
    // The error names the operation, not the step that needed memory.
    assert_eq!(bytes_missing("copy", dispatch(&Copy(wide.clone()))), n << 2);
    // An unshared tensor is written in place.
    drop(shared);
    x.as_mut_slice::<i64>().unwrap()[0] = 7;

    // The next operation works.
    set_limit(None);
    assert_eq!(dispatch(&Copy(wide)).unwrap().to_vec::<f32>().unwrap(), vec![2.0; n]);
    assert_eq!(x.to_vec::<i64>().unwrap()[..3], [7, 1, 2]);

    // An allocation that fails releases the cache and tries again.
    empty_cache();
    drop(Tensor::zeros(&[n], DType::F32).unwrap());
    assert!(cache_stats().kept >= n << 2);
    bytes_missing("zeros", Tensor::zeros(&[1 << 50], DType::F32));
    assert_eq!(cache_stats().kept, 0);

    let before = cache_stats();
    drop(Tensor::zeros(&[n], DType::F32).unwrap());
    drop(Tensor::zeros(&[n], DType::F32).unwrap());
    assert!(cache_stats().reused > before.reused);
    set_cache_limit(n);
    let after = cache_stats();
    assert!(after.kept <= n && after.limit == n && after.evicted > before.evicted);
    set_cache_limit(0);
    drop(Tensor::zeros(&[n], DType::F32).unwrap());
    assert_eq!(cache_stats().kept, 0);
    set_cache_limit(before.limit);
}
