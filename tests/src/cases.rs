use samebits::ops::*;
use samebits::{DType, Device, Generator, Op, Result, Tensor, dispatch, registry};

use crate::{indices, normal_of};

/// A seeded call of an operation.
pub struct Case {
    /// The operation, its parameters and its type.
    pub name: String,
    /// Runs it and returns every result.
    pub run: Box<dyn Fn() -> Result<Vec<Tensor>> + Send + Sync>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// Every operation with typical and with awkward arguments. Sizes are such that work is shared
/// among threads and that tails shorter than a vector are left over.
pub fn cases() -> Vec<Case> {
    let mut cases = Cases(Vec::new());
    elementwise(&mut cases);
    for dtype in [DType::F32, DType::F64] {
        reductions(&mut cases, dtype);
        contractions(&mut cases, dtype);
        pooling(&mut cases, dtype);
        normalisation(&mut cases, dtype);
        optimisers(&mut cases, dtype);
        draws(&mut cases, dtype);
        indexing(&mut cases, dtype);
    }
    losses(&mut cases);
    cases.0
}

struct Cases(Vec<Case>);

impl Cases {
    fn add<O: Op>(&mut self, name: impl Into<String>, op: O)
    where
        O::Output: Tensors,
    {
        self.0
            .push(Case { name: name.into(), run: Box::new(move || Ok(dispatch(&op)?.tensors())) });
    }
}

/// Results as a list.
trait Tensors {
    fn tensors(self) -> Vec<Tensor>;
}

impl Tensors for Tensor {
    fn tensors(self) -> Vec<Tensor> {
        vec![self]
    }
}

impl Tensors for (Tensor, Tensor) {
    fn tensors(self) -> Vec<Tensor> {
        vec![self.0, self.1]
    }
}

impl Tensors for (Tensor, Option<Tensor>) {
    fn tensors(self) -> Vec<Tensor> {
        [Some(self.0), self.1].into_iter().flatten().collect()
    }
}

impl Tensors for (Tensor, Tensor, Tensor) {
    fn tensors(self) -> Vec<Tensor> {
        vec![self.0, self.1, self.2]
    }
}

impl Tensors for (Tensor, Tensor, Tensor, Tensor) {
    fn tensors(self) -> Vec<Tensor> {
        vec![self.0, self.1, self.2, self.3]
    }
}

/// Numbers of every kind: ordinary, huge, tiny, subnormal, infinite, NaN, both zeros.
fn wild(shape: &[usize], dtype: DType, seed: u64) -> Tensor {
    let special = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e-40,
        -1e-45,
        3e38,
        -1e30,
        1e-20,
        17.0,
    ];
    let values: Vec<f64> = normal_of(shape, DType::F64, seed).to_vec().expect("of this type");
    let mixed = values
        .iter()
        .enumerate()
        .map(|(i, &x)| if i % 7 == 3 { special[i / 7 % special.len()] } else { x });
    match dtype {
        DType::F32 => Tensor::from_slice(&mixed.map(|x| x as f32).collect::<Vec<_>>(), shape),
        _ => Tensor::from_slice(&mixed.collect::<Vec<_>>(), shape),
    }
    .expect("as many values")
}

fn elementwise(cases: &mut Cases) {
    use UnaryKind::*;
    for kind in [
        Neg, Abs, Exp, Exp2, Expm1, Log, Log2, Log10, Log1p, Sqrt, Rsqrt, Sin, Cos, Tanh, Sigmoid,
        Erf, Relu, Reciprocal, Square,
    ] {
        for dtype in [DType::F32, DType::F64] {
            let x = wild(&[50_003], dtype, 1);
            cases.add(format!("unary {kind:?} {dtype}"), Unary { kind, x });
        }
    }
    for dtype in [DType::F32, DType::F64] {
        use BinaryKind::*;
        for kind in [Add, Sub, Mul, Div, Maximum, Minimum, ReluGrad, TanhGrad, SigmoidGrad] {
            let (a, b) = (wild(&[177, 189], dtype, 1), wild(&[177, 189], dtype, 2));
            let b = b.reshape(&[189, 177]).and_then(|b| b.transpose(0, 1)).expect("two dimensions");
            cases.add(format!("binary {kind:?} {dtype}"), Binary { kind, a, b });
        }
        for (a, b) in [
            (vec![40, 3, 170], vec![170]),
            (vec![40, 1, 170], vec![3, 1]),
            (vec![], vec![40, 3]),
            (vec![5, 0], vec![1]),
        ] {
            let name = format!("binary Add {dtype} {a:?} {b:?}");
            let (a, b) = (wild(&a, dtype, 1), wild(&b, dtype, 2));
            cases.add(name, Binary { kind: Add, a, b });
        }
        let x = wild(&[40_001], dtype, 3);
        cases.add(format!("affine {dtype}"), Affine { x: x.clone(), scale: 0.3, shift: -1.7 });
        for kind in [
            CompareKind::Eq,
            CompareKind::Ne,
            CompareKind::Lt,
            CompareKind::Le,
            CompareKind::Gt,
            CompareKind::Ge,
        ] {
            let b = wild(&[40_001], dtype, 4);
            cases.add(format!("compare {kind:?} {dtype}"), Compare { kind, a: x.clone(), b });
        }
        let condition: Vec<bool> = (0..40_001).map(|i| i % 3 == 0).collect();
        let condition = Tensor::from_bools(&condition, &[40_001]).expect("as many values");
        cases.add(
            format!("where {dtype}"),
            Where { condition, a: x.clone(), b: wild(&[1], dtype, 5) },
        );
        for to in DType::ALL {
            cases.add(format!("cast {dtype} {to}"), Cast { x: x.clone(), to });
        }
    }
    let x = indices(1000, 300, 6);
    cases.add("cast i64 u8", Cast { x: x.clone(), to: DType::U8 });
    cases.add("compare Lt i64", Compare { kind: CompareKind::Lt, a: x, b: indices(1000, 300, 7) });
}

fn reductions(cases: &mut Cases, dtype: DType) {
    for kind in [ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Amax, ReduceKind::Amin] {
        for (shape, dims) in [
            (vec![300_007], vec![0]),
            (vec![33, 5000], vec![1]),
            (vec![9001, 37], vec![0]),
            (vec![7, 129, 11], vec![1]),
            (vec![6, 50, 7, 20], vec![0, 2]),
            (vec![4, 3], vec![]),
        ] {
            let name = format!("reduce {kind:?} {dtype} {shape:?} {dims:?}");
            let x = normal_of(&shape, dtype, 8);
            cases.add(name, Reduce { kind, x, dims });
        }
        let x = wild(&[40, 1000], dtype, 9);
        cases.add(format!("reduce {kind:?} {dtype} wild"), Reduce { kind, x, dims: vec![1] });
    }
    let x = normal_of(&[3, 0, 2], dtype, 1);
    cases.add(
        format!("reduce Sum {dtype} empty"),
        Reduce { kind: ReduceKind::Sum, x, dims: vec![1] },
    );
    for kind in [ArgReduceKind::Argmax, ArgReduceKind::Argmin] {
        let x = wild(&[70, 333], dtype, 10);
        cases.add(format!("arg_reduce {kind:?} {dtype}"), ArgReduce { kind, x, dim: 0 });
    }
}

fn contractions(cases: &mut Cases, dtype: DType) {
    for (a, b) in [
        (vec![65, 700], vec![700, 130]),
        (vec![1, 3000], vec![3000, 257]),
        (vec![300, 3], vec![3, 1]),
        (vec![4, 1, 20, 30], vec![3, 30, 17]),
        (vec![5, 0], vec![0, 4]),
        (vec![0, 5], vec![5, 4]),
    ] {
        let name = format!("matmul {dtype} {a:?} {b:?}");
        cases.add(name, Matmul { a: normal_of(&a, dtype, 11), b: normal_of(&b, dtype, 12) });
    }
    let a = wild(&[40, 300], dtype, 13);
    let b = wild(&[50, 300], dtype, 14).transpose(0, 1).expect("two dimensions");
    cases.add(format!("matmul {dtype} wild"), Matmul { a, b });
    for (input, weight, params) in convolutions() {
        let name = format!("{dtype} {input:?} {weight:?} {params:?}");
        let x = normal_of(&input, dtype, 15);
        let w = normal_of(&weight, dtype, 16);
        let output = params.output_shape("case", &input, &weight).expect("a valid case");
        let grad = normal_of(&output, dtype, 17);
        cases.add(
            format!("conv {name}"),
            Conv {
                input: x.clone(),
                weight: w.clone(),
                bias: Some(normal_of(&weight[..1], dtype, 18)),
                params: params.clone(),
            },
        );
        cases.add(
            format!("conv_input {name}"),
            ConvInputGrad {
                grad: grad.clone(),
                weight: w,
                input_shape: input,
                params: params.clone(),
            },
        );
        cases.add(
            format!("conv_weight {name}"),
            ConvWeightGrad { grad, input: x, weight_shape: weight, params },
        );
    }
}

fn convolutions() -> Vec<(Vec<usize>, Vec<usize>, ConvParams)> {
    let params = |stride: &[usize], padding: &[usize], dilation: &[usize], groups| ConvParams {
        stride: stride.to_vec(),
        padding: padding.to_vec(),
        dilation: dilation.to_vec(),
        groups,
    };
    vec![
        (vec![3, 16, 14, 15], vec![24, 16, 3, 3], ConvParams::padded(2, 1)),
        (vec![2, 6, 9, 11], vec![9, 2, 2, 3], params(&[2, 1], &[1, 0], &[1, 2], 3)),
        (vec![2, 8, 12, 12], vec![8, 1, 3, 3], params(&[1, 1], &[1, 1], &[1, 1], 8)),
        (vec![2, 4, 50], vec![5, 4, 7], params(&[3], &[3], &[1], 1)),
        (vec![1, 3, 6, 7, 8], vec![4, 3, 3, 2, 3], params(&[1, 2, 1], &[1, 0, 1], &[1, 1, 2], 1)),
        (vec![0, 2, 5, 5], vec![2, 2, 3, 3], ConvParams::padded(2, 1)),
    ]
}

fn pooling(cases: &mut Cases, dtype: DType) {
    let params = PoolParams {
        kernel: vec![3, 2],
        stride: vec![2, 2],
        padding: vec![1, 1],
        dilation: vec![1, 1],
        ceil_mode: true,
    };
    let input = wild(&[4, 9, 17, 20], dtype, 19);
    let output = params.output_shape("case", input.shape()).expect("a valid case");
    let grad = normal_of(&output, dtype, 20);
    let indices = dispatch(&MaxPool { input: input.clone(), params: params.clone() })
        .expect("a valid case")
        .1;
    let input_shape = input.shape().to_vec();
    cases
        .add(format!("max_pool {dtype}"), MaxPool { input: input.clone(), params: params.clone() });
    cases.add(
        format!("max_pool grad {dtype}"),
        MaxPoolGrad {
            grad: grad.clone(),
            indices,
            input_shape: input_shape.clone(),
            params: params.clone(),
        },
    );
    for (count_include_pad, divisor_override) in [(true, None), (false, None), (true, Some(5))] {
        cases.add(
            format!("avg_pool {dtype} {count_include_pad} {divisor_override:?}"),
            AvgPool {
                input: input.clone(),
                params: params.clone(),
                count_include_pad,
                divisor_override,
            },
        );
        cases.add(
            format!("avg_pool grad {dtype} {count_include_pad} {divisor_override:?}"),
            AvgPoolGrad {
                grad: grad.clone(),
                input_shape: input_shape.clone(),
                params: params.clone(),
                count_include_pad,
                divisor_override,
            },
        );
    }
}

fn normalisation(cases: &mut Cases, dtype: DType) {
    let input = normal_of(&[6, 10, 31, 17], dtype, 21);
    let grad = normal_of(&[6, 10, 31, 17], dtype, 22);
    let channel = |seed| normal_of(&[10], dtype, seed);
    let forward =
        BatchNorm { input: input.clone(), weight: channel(23), bias: channel(24), eps: 1e-5 };
    let (_, mean, var, rstd) = dispatch(&forward).expect("a valid case");
    cases.add(format!("batch_norm {dtype}"), forward);
    cases.add(
        format!("batch_norm grad {dtype}"),
        BatchNormGrad { grad, input: input.clone(), weight: channel(23), mean: mean.clone(), rstd },
    );
    cases.add(
        format!("batch_norm_inference {dtype}"),
        BatchNormInference { input, weight: channel(23), bias: channel(24), mean, var, eps: 1e-5 },
    );
    let input = normal_of(&[40, 5, 91], dtype, 25);
    let row = |seed| normal_of(&[5, 91], dtype, seed);
    let forward = LayerNorm { input: input.clone(), weight: row(26), bias: row(27), eps: 1e-5 };
    let (_, mean, rstd) = dispatch(&forward).expect("a valid case");
    cases.add(format!("layer_norm {dtype}"), forward);
    let grad = normal_of(&[40, 5, 91], dtype, 28);
    cases.add(
        format!("layer_norm grad {dtype}"),
        LayerNormGrad { grad, input, weight: row(26), mean, rstd },
    );
}

fn optimisers(cases: &mut Cases, dtype: DType) {
    let tensor = |seed| normal_of(&[30_011], dtype, seed);
    let params =
        SgdParams { lr: 0.1, momentum: 0.9, dampening: 0.1, weight_decay: 0.01, nesterov: true };
    for velocity in [None, Some(tensor(31))] {
        let name = format!("sgd_step {dtype} {}", velocity.is_some());
        cases.add(name, SgdStep { param: tensor(29), grad: tensor(30), velocity, params });
    }
    for decoupled in [false, true] {
        let params = AdamParams {
            lr: 1e-3,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.01,
            decoupled,
        };
        let square = dispatch(&Unary { kind: UnaryKind::Square, x: tensor(33) }).expect("floats");
        cases.add(
            format!("adam_step {dtype} {decoupled}"),
            AdamStep {
                param: tensor(29),
                grad: tensor(30),
                mean: tensor(32),
                square,
                step: 5,
                params,
            },
        );
    }
}

fn draws(cases: &mut Cases, dtype: DType) {
    let generator = Generator::new(34).with_stream(2).with_offset(9);
    let (shape, device) = (vec![3, 20_001], Device::Cpu);
    cases.add(
        format!("uniform {dtype}"),
        Uniform {
            shape: shape.clone(),
            dtype,
            device,
            low: -1.0,
            high: 3.0,
            generator: generator.clone(),
        },
    );
    cases.add(
        format!("normal {dtype}"),
        Normal { shape, dtype, device, mean: 1.0, std: 2.0, generator: generator.clone() },
    );
    let x = normal_of(&[50_005], dtype, 35);
    cases.add(format!("dropout {dtype}"), Dropout { x, p: 0.3, generator });
}

fn indexing(cases: &mut Cases, dtype: DType) {
    let (dim, index) = (1, indices(5000, 30, 36));
    let x = wild(&[3, 30, 7], dtype, 37);
    cases.add(
        format!("index_select {dtype}"),
        IndexSelect { x: x.clone(), dim, index: index.clone() },
    );
    let source = wild(&[3, 5000, 7], dtype, 38);
    for alpha in [1.0, 0.7] {
        let (input, index, source) = (x.clone(), index.clone(), source.clone());
        cases.add(
            format!("index_add {dtype} {alpha}"),
            IndexAdd { input, dim, index, source, alpha },
        );
    }
}

fn losses(cases: &mut Cases) {
    for dtype in [DType::F32, DType::F64] {
        let x = normal_of(&[300, 67], dtype, 39);
        for dim in [0, 1] {
            let y = dispatch(&LogSoftmax { x: x.clone(), dim }).expect("a valid case");
            cases.add(format!("log_softmax {dtype} {dim}"), LogSoftmax { x: x.clone(), dim });
            let grad = normal_of(&[300, 67], dtype, 40);
            cases.add(format!("log_softmax grad {dtype} {dim}"), LogSoftmaxGrad { grad, y, dim });
        }
        let x = wild(&[30, 40], dtype, 41);
        cases.add(format!("log_softmax {dtype} wild"), LogSoftmax { x, dim: 1 });
    }
    for dtype in [DType::F32, DType::F64] {
        let target = indices(300, 67, 42);
        let log_probs = normal_of(&[300, 67], dtype, 43);
        cases.add(format!("nll_loss {dtype}"), NllLoss { log_probs, target: target.clone() });
        let grad = normal_of(&[], dtype, 44);
        cases.add(format!("nll_loss grad {dtype}"), NllLossGrad { grad, target, classes: 67 });
    }
}

/// The kernels that promise their bits and that no case has run in this process.
pub fn unreached() -> Vec<String> {
    registry::kernels()
        .into_iter()
        .filter(|(info, runs)| info.level > samebits::Determinism::NotGuaranteed && *runs == 0)
        .map(|(info, _)| format!("{} {} {} {}", info.op, info.pass, info.device, info.variant))
        .collect()
}
