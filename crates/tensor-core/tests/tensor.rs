//! Tensors are values: views, writes, and unwritten memory.

use std::any::Any;
use std::sync::Arc;

use samebits_tensor_core::{DType, Device, DeviceBuffer, Error, Tensor, random};

fn numbers(shape: &[usize]) -> Tensor {
    let values: Vec<f32> = (0..shape.iter().product::<usize>()).map(|i| i as f32).collect();
    Tensor::from_slice(&values, shape).unwrap()
}

#[test]
fn views_share_until_written() {
    let x = numbers(&[2, 3]);
    let row = x.select(0, 1).unwrap();
    let mut copy = row.clone();
    copy.as_mut_slice::<f32>().unwrap()[0] = 9.0;
    assert_eq!(copy.to_vec::<f32>().unwrap(), [9.0, 4.0, 5.0]);
    assert_eq!(row.to_vec::<f32>().unwrap(), [3.0, 4.0, 5.0]);
    assert_eq!(x.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn strided_views_read_in_logical_order() {
    let x = numbers(&[2, 3, 2]);
    let y = x.permute(&[2, 0, 1]).unwrap().narrow(2, 1, 2).unwrap();
    assert_eq!(y.shape(), [2, 2, 2]);
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.0, 4.0, 8.0, 10.0, 3.0, 5.0, 9.0, 11.0]);
    assert_eq!(y.reshape(&[8]).unwrap().to_vec::<f32>().unwrap(), y.to_vec::<f32>().unwrap());
    let stepped = x.reshape(&[12]).unwrap().stepped(0, 1, 5).unwrap();
    assert_eq!(stepped.to_vec::<f32>().unwrap(), [1.0, 6.0, 11.0]);
    let wide = numbers(&[2, 1]).expand(&[3, 2, 2]).unwrap();
    assert_eq!(wide.to_vec::<f32>().unwrap(), [0.0, 0.0, 1.0, 1.0].repeat(3));
}

/// Copies by tiles of 16 and strips of 128: sizes on both sides of their borders, and dimensions
/// around and between.
#[test]
fn copies_across_the_storage_have_the_logical_order() {
    for (shape, order) in [
        (&[70, 45][..], &[1, 0][..]),
        (&[1, 40], &[1, 0]),
        (&[33, 16], &[1, 0]),
        (&[16, 275], &[1, 0]),
        (&[33, 2], &[1, 0]),
        (&[3, 40, 33], &[0, 2, 1]),
        (&[3, 40, 33], &[2, 0, 1]),
        (&[2, 31, 3, 34], &[3, 1, 0, 2]),
        (&[2, 0, 3], &[2, 0, 1]),
    ] {
        let x = numbers(shape).permute(order).unwrap();
        let want: Vec<f32> = x.layout().positions().map(|at| at as f32).collect();
        assert_eq!(x.to_vec::<f32>().unwrap(), want, "{shape:?} {order:?}");
    }
    let part = numbers(&[50, 60]).narrow(0, 3, 40).unwrap().narrow(1, 7, 35).unwrap();
    let part = part.transpose(0, 1).unwrap();
    let want: Vec<f32> = part.layout().positions().map(|at| at as f32).collect();
    assert_eq!(part.to_vec::<f32>().unwrap(), want);
}

#[test]
fn mistakes_are_errors_that_name_both_sides() {
    let x = numbers(&[2, 3]);
    for (error, text) in [
        (x.reshape(&[4]).unwrap_err(), "reshape: shape [2, 3] holds 6 elements, [4] holds 4"),
        (x.to_vec::<f64>().unwrap_err(), "to_vec: expected a tensor of type f64, got f32"),
        (x.permute(&[0, 0]).unwrap_err(), "permute: [0, 0] is not an order of 2 dimensions"),
        (
            x.narrow(1, 2, 2).unwrap_err(),
            "narrow: 2 elements from 2 do not fit dimension 1 of size 3",
        ),
        (x.item::<f32>().unwrap_err(), "item: a tensor of shape [2, 3] has 6 elements, not 1"),
        (
            Tensor::from_slice(&[1i64], &[2]).unwrap_err(),
            "from_slice: 1 values for a tensor of shape [2]",
        ),
        (
            x.transpose(0, 1).unwrap().as_slice::<f32>().unwrap_err(),
            "as_slice: the tensor is strided; call `contiguous` first",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
    assert_eq!(x.to(Device::Cuda(7)).unwrap_err(), Error::NoBackend { device: Device::Cuda(7) });
}

#[test]
fn unwritten_memory_is_filled_where_a_user_can_read_it() {
    let read = |dtype| Tensor::empty(&[5], dtype).unwrap().to_bytes().unwrap();
    assert_eq!(read(DType::F32), 0x7fc0_0000u32.to_le_bytes().repeat(5));
    assert_eq!(read(DType::F64), (0x7ff8u64 << 48).to_le_bytes().repeat(5));
    assert_eq!(read(DType::I64), i64::MAX.to_le_bytes().repeat(5));
    assert_eq!(read(DType::U8), [255; 5]);
    assert_eq!(read(DType::Bool), [1; 5]);
    let strided = Tensor::empty_strided(&[2, 2], &[1, 3], DType::F32).unwrap();
    assert!(strided.to_vec::<f32>().unwrap().iter().all(|x| x.to_bits() == 0x7fc0_0000));
    assert_eq!(
        numbers(&[2]).empty_like().unwrap().to_bytes().unwrap(),
        0x7fc0_0000u32.to_le_bytes().repeat(2)
    );
}

#[test]
fn resize_fills_only_what_grew() {
    let mut x = numbers(&[2, 2]);
    x.resize_(&[3, 2]).unwrap();
    let values = x.to_vec::<f32>().unwrap();
    assert_eq!(values[..4], [0.0, 1.0, 2.0, 3.0]);
    assert!(values[4..].iter().all(|x| x.to_bits() == 0x7fc0_0000));
    x.resize_(&[3]).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
}

#[test]
fn a_tensor_of_a_device_fits_its_buffer_and_keeps_it() {
    #[derive(Debug)]
    struct Bytes(usize);

    impl DeviceBuffer for Bytes {
        fn device(&self) -> Device {
            Device::Cuda(0)
        }

        fn len(&self) -> usize {
            self.0
        }

        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    let of = |shape: &[usize]| Tensor::from_device_buffer(Arc::new(Bytes(24)), shape, DType::F32);
    assert!(matches!(of(&[7]), Err(Error::InvalidArgument { op: "from_device_buffer", .. })));
    let x = of(&[2, 3]).unwrap();
    let storage = x.storage();
    let view = x.select(0, 1).unwrap();
    drop(x);
    assert!(storage.is_alive());
    drop(view);
    assert!(!storage.is_alive());
}

#[test]
fn a_thread_knows_its_seed() {
    random::manual_seed(5);
    assert_eq!(random::initial_seed(), Some(5));
    let drawn = random::seed();
    assert_eq!(random::initial_seed(), Some(drawn));
}
