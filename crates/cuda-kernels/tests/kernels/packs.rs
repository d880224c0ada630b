//! Kernels whose threads access several elements at once: the bits of long tensors, from every place
//! in their storage, are those of their short pieces, which no thread accesses so.

use crate::data::Source;
use samebits_tensor_core::ops::{
    AdamParams, AdamStep, Affine, Binary, BinaryKind, Cast, Cat, Compare, CompareKind, Flip,
    SgdParams, SgdStep, Unary, UnaryKind, Where,
};
use samebits_tensor_core::registry::dispatch_all;
use samebits_tensor_core::{DType, Device, Tensor, dispatch};

/// More elements than two blocks access at once, and a rest.
const LONG: usize = 2 * 4 * 256 + 7;
const PIECE: usize = 500;

type Operation = (String, Box<dyn Fn(&[Tensor]) -> Vec<Tensor>>);

fn one(op: impl Fn(&[Tensor]) -> Tensor + 'static) -> Box<dyn Fn(&[Tensor]) -> Vec<Tensor>> {
    Box::new(move |x| vec![op(x)])
}

/// Returns the operations on four tensors of a type.
fn operations(dtype: DType) -> Vec<Operation> {
    let mut all: Vec<Operation> = Vec::new();
    let float = matches!(dtype, DType::F32 | DType::F64);
    let number = float || dtype == DType::I64;
    let mut unary = vec![UnaryKind::Neg, UnaryKind::Abs, UnaryKind::Relu, UnaryKind::Square];
    unary.extend([UnaryKind::Sqrt, UnaryKind::Reciprocal].into_iter().filter(|_| float));
    for kind in unary.into_iter().filter(|_| number) {
        let op = one(move |x| dispatch(&Unary { kind, x: x[0].clone() }).unwrap());
        all.push((format!("{kind:?}"), op));
    }
    use BinaryKind::*;
    let mut binary = vec![Add, Sub, Mul, Maximum, Minimum];
    binary.extend([Div, Weigh, ReluGrad, TanhGrad, SigmoidGrad].into_iter().filter(|_| float));
    for kind in binary.into_iter().filter(|_| number) {
        let op =
            one(move |x| dispatch(&Binary { kind, a: x[0].clone(), b: x[1].clone() }).unwrap());
        all.push((format!("{kind:?}"), op));
    }
    use CompareKind::*;
    for kind in [Eq, Ne, Lt, Le, Gt, Ge] {
        let op =
            one(move |x| dispatch(&Compare { kind, a: x[0].clone(), b: x[1].clone() }).unwrap());
        all.push((format!("{kind:?}"), op));
    }
    let op = one(|x| {
        let condition = dispatch(&Cast { x: x[2].clone(), to: DType::Bool }).unwrap();
        dispatch(&Where { condition, a: x[0].clone(), b: x[1].clone() }).unwrap()
    });
    all.push(("where".to_owned(), op));
    for to in [DType::F32, DType::F64, DType::I64, DType::Bool, DType::F16, DType::BF16, DType::I32]
    {
        let op = one(move |x| dispatch(&Cast { x: x[0].clone(), to }).unwrap());
        all.push((format!("to {to:?}"), op));
    }
    if float {
        let op = one(|x| dispatch(&Affine { x: x[0].clone(), scale: 0.3, shift: -1.25 }).unwrap());
        all.push(("affine".to_owned(), op));
        let adam = |x: &[Tensor]| {
            let [param, grad, mean, square] = [0, 1, 2, 3].map(|k| x[k].clone());
            let params = AdamParams {
                lr: 0.1,
                beta1: 0.9,
                beta2: 0.99,
                eps: 1e-8,
                weight_decay: 0.1,
                decoupled: false,
            };
            let step = AdamStep { param, grad, mean, square, step: 3, params };
            let (param, mean, square) = dispatch(&step).unwrap();
            vec![param, mean, square]
        };
        all.push(("adam".to_owned(), Box::new(adam)));
        for momentum in [0.0, 0.9] {
            let sgd = move |x: &[Tensor]| {
                let params = SgdParams {
                    lr: 0.1,
                    momentum,
                    dampening: 0.25,
                    weight_decay: 0.1,
                    nesterov: momentum > 0.0,
                };
                let velocity = (momentum > 0.0).then(|| x[2].clone());
                let (param, grad) = (x[0].clone(), x[1].clone());
                let (param, velocity) =
                    dispatch(&SgdStep { param, grad, velocity, params }).unwrap();
                [param].into_iter().chain(velocity).collect()
            };
            all.push((format!("sgd {momentum}"), Box::new(sgd)));
        }
    }
    all
}

#[test]
fn parameters_step_together_from_any_place() {
    let Ok(1..) = samebits_cuda_kernels::install() else {
        return;
    };
    let gpu = Device::Cuda(0);
    for dtype in [DType::F32, DType::F64] {
        let mut source = Source::new(7);
        let storages: Vec<Tensor> = (0..4)
            .map(|_| {
                let x = Tensor::from_slice(&source.broken(LONG + 4), &[LONG + 4]).unwrap();
                dispatch(&Cast { x: x.to(gpu).unwrap(), to: dtype }).unwrap()
            })
            .collect();
        let view = |of: usize, first, length| storages[of].narrow(0, first, length).unwrap();
        // Steps with other numbers and settings need constants of their own.
        let steps = [(0, 1, LONG), (0, 1, 0), (1, 1, LONG), (2, 4, 700), (3, 1, LONG), (1, 4, 9)];
        let adam = |k: usize, (first, step, n)| AdamStep {
            param: view(0, first, n),
            grad: view(1, k % 4, n),
            mean: view(2, first, n),
            square: view(3, first, n),
            step,
            params: AdamParams {
                lr: 0.1,
                beta1: 0.9,
                beta2: 0.99,
                eps: 1e-8,
                weight_decay: 0.1,
                decoupled: k.is_multiple_of(2),
            },
        };
        let ops: Vec<_> = steps.iter().enumerate().map(|(k, &step)| adam(k, step)).collect();
        for (op, (param, mean, square)) in ops.iter().zip(dispatch_all(&ops).unwrap()) {
            let alone: (Tensor, Tensor, Tensor) = dispatch(op).unwrap();
            let alone = bytes(&[alone.0, alone.1, alone.2]);
            assert!(bytes(&[param, mean, square]) == alone, "adam {dtype:?} {:?}", op.param);
        }
        let sgd = |k: usize, (first, step, n)| SgdStep {
            param: view(0, first, n),
            grad: view(1, k % 4, n),
            velocity: (step == 1).then(|| view(2, first, n)),
            params: SgdParams {
                lr: 0.1 + (k % 2) as f64,
                momentum: 0.9,
                dampening: 0.25,
                weight_decay: 0.1,
                nesterov: true,
            },
        };
        let ops: Vec<_> = steps.iter().enumerate().map(|(k, &step)| sgd(k, step)).collect();
        for (op, (param, velocity)) in ops.iter().zip(dispatch_all(&ops).unwrap()) {
            let alone = dispatch(op).unwrap();
            let alone = bytes(&[alone.0, alone.1.unwrap()]);
            assert!(bytes(&[param, velocity.unwrap()]) == alone, "sgd {dtype:?} {:?}", op.param);
        }
    }
}

fn bytes(tensors: &[Tensor]) -> Vec<Vec<u8>> {
    tensors.iter().map(|x| x.to_bytes().unwrap()).collect()
}

#[test]
fn long_tensors_are_their_pieces() {
    let Ok(1..) = samebits_cuda_kernels::install() else {
        return;
    };
    let gpu = Device::Cuda(0);
    for dtype in [DType::F32, DType::F64, DType::I64, DType::Bool, DType::F16] {
        let mut source = Source::new(5);
        let storages: Vec<Tensor> = (0..4)
            .map(|_| {
                let x = Tensor::from_slice(&source.broken(LONG + 4), &[LONG + 4]).unwrap();
                dispatch(&Cast { x: x.to(gpu).unwrap(), to: dtype }).unwrap()
            })
            .collect();
        for (name, op) in operations(dtype) {
            if matches!(dtype, DType::Bool | DType::F16) && !name.starts_with("to ") {
                continue;
            }
            // Each operand from another place, and all from the same.
            for starts in [[0; 4], [1; 4], [2; 4], [3; 4], [0, 1, 2, 3], [2, 0, 0, 0]] {
                let view = |first: usize, length: usize| -> Vec<Tensor> {
                    let views = storages.iter().zip(starts);
                    views.map(|(x, at)| x.narrow(0, at + first, length).unwrap()).collect()
                };
                let long = bytes(&op(&view(0, LONG)));
                let mut pieces = vec![Vec::new(); long.len()];
                for first in (0..LONG).step_by(PIECE) {
                    let piece = op(&view(first, PIECE.min(LONG - first)));
                    for (all, piece) in pieces.iter_mut().zip(bytes(&piece)) {
                        all.extend(piece);
                    }
                }
                assert!(long == pieces, "{name} of {dtype:?} from {starts:?}");
            }
        }
    }
}

#[test]
fn rows_are_repeated_copied_and_joined() {
    let Ok(1..) = samebits_cuda_kernels::install() else {
        return;
    };
    let gpu = Device::Cuda(0);
    for (rows, width) in [(40, 96), (33, 130), (50, 101)] {
        let storage = Source::new(6).broken(rows * width + 4);
        for dtype in [DType::F32, DType::F64, DType::I64, DType::F16] {
            let x = Tensor::from_slice(&storage, &[storage.len()]).unwrap().to(gpu).unwrap();
            let x = dispatch(&Cast { x, to: dtype }).unwrap();
            for start in 0..4 {
                let flat = x.narrow(0, start, rows * width).unwrap();
                let table = flat.reshape(&[rows, width]).unwrap();
                let row = |at: usize| table.narrow(0, at, 1).unwrap();
                let what = format!("{rows} x {width} {dtype:?} from {start}");
                // Each row alone is short.
                if dtype != DType::F16 {
                    let first = row(0).expand(&[rows, width]).unwrap();
                    let add = |a: &Tensor, b: &Tensor| {
                        let (a, b) = (a.clone(), b.clone());
                        dispatch(&Binary { kind: BinaryKind::Add, a, b }).unwrap()
                    };
                    let parts = (0..rows).map(|at| add(&row(at), &row(0)).to_bytes().unwrap());
                    let parts: Vec<u8> = parts.flatten().collect();
                    assert!(add(&table, &first).to_bytes().unwrap() == parts, "add {what}");
                    let parts = (0..rows).map(|at| add(&row(0), &row(at)).to_bytes().unwrap());
                    let parts: Vec<u8> = parts.flatten().collect();
                    assert!(add(&first, &table).to_bytes().unwrap() == parts, "added {what}");
                }
                let all = flat.to_bytes().unwrap();
                let size = all.len() / (rows * width);
                // Columns from `first` on, and every second column.
                let column = |first: usize, step: usize| {
                    let places = (0..rows).flat_map(move |r| {
                        (first..width).step_by(step).map(move |c| (r * width + c) * size)
                    });
                    places.flat_map(|at| all[at..at + size].to_vec()).collect::<Vec<u8>>()
                };
                for first in [0, 1, 2, 4] {
                    let part = table.narrow(1, first, width - first).unwrap();
                    let copy = part.contiguous().unwrap();
                    assert!(copy.to_bytes().unwrap() == column(first, 1), "copy {first} {what}");
                    let left = table.narrow(1, 0, first).unwrap();
                    let joined = dispatch(&Cat { inputs: vec![left, part], dim: 1 }).unwrap();
                    assert!(joined.to_bytes().unwrap() == all, "cat {first} {what}");
                }
                let second = table.stepped(1, 0, 2).unwrap().contiguous().unwrap();
                assert!(second.to_bytes().unwrap() == column(0, 2), "every second of {what}");
            }
        }
    }
}

#[test]
fn flips_move_bytes() {
    let Ok(1..) = samebits_cuda_kernels::install() else {
        return;
    };
    let shapes: [&[usize]; 8] =
        [&[], &[1], &[2001], &[7, 300], &[5, 1, 9, 6], &[2, 3, 5, 7, 2], &[2; 11], &[3, 0, 2]];
    for shape in shapes {
        let numel: usize = shape.iter().product();
        let values = Tensor::arange(numel).unwrap().reshape(shape).unwrap();
        let values = values.to(Device::Cuda(0)).unwrap();
        for dtype in DType::ALL {
            let x = dispatch(&Cast { x: values.clone(), to: dtype }).unwrap();
            let bytes = x.to_bytes().unwrap();
            let all: Vec<usize> = (0..shape.len()).collect();
            let even = all.iter().copied().filter(|dim| dim % 2 == 0).collect();
            let odd = all.iter().copied().filter(|dim| dim % 2 == 1).collect();
            for dims in [vec![], even, odd, all] {
                let from = |mut at: usize| {
                    let (mut from, mut stride) = (0, 1);
                    for (dim, &size) in shape.iter().enumerate().rev() {
                        let i = at % size;
                        from += stride * if dims.contains(&dim) { size - 1 - i } else { i };
                        (at, stride) = (at / size, stride * size);
                    }
                    from
                };
                let size = dtype.size();
                let expected: Vec<u8> =
                    (0..numel).flat_map(|at| bytes[from(at) * size..][..size].to_vec()).collect();
                let flipped = dispatch(&Flip { x: x.clone(), dims: dims.clone() }).unwrap();
                assert_eq!(flipped.shape(), shape, "{dtype} {dims:?}");
                assert!(flipped.to_bytes().unwrap() == expected, "{dtype} {shape:?} {dims:?}");
            }
        }
    }
}
