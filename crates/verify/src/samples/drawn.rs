//! Operations with drawn shapes and parameters, valid and invalid: sizes of 0 and 1, indices out of
//! range, numbers of every kind.

use samebits::functional::{self as f, BagOptions, Resize};
use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Device, Generator, Result, Tensor, dispatch};

use super::{Case, Cases, Make};

/// Returns cases drawn from a seed; they are the same for every device.
pub fn drawn_cases(device: Device, seed: u64) -> Vec<Case> {
    let make = Make::on(device);
    let mut cases = Cases { make, all: Vec::new() };
    let families = [elementwise, reductions, contractions, windows, resampling, indexing, scans];
    let generators = Generator::new(seed).split(families.len()).expect("a few generators");
    for (number, (family, generator)) in families.into_iter().zip(generators).enumerate() {
        let mut draw = Draw {
            generator,
            make,
            dtype: [DType::F32, DType::F64][(seed + number as u64) as usize % 2],
            seed: seed * 100,
        };
        family(&mut cases, &mut draw);
    }
    cases.all
}

struct Draw {
    generator: Generator,
    make: Make,
    dtype: DType,
    seed: u64,
}

impl Draw {
    /// Draws a number from `from..to`.
    fn number(&mut self, from: usize, to: usize) -> usize {
        let mut value = [0i64];
        let range = (from as i64, to as i64);
        self.generator.fill_randint(&mut value, range.0, range.1).expect("a range");
        value[0] as usize
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.number(0, one_in) == 0
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.number(0, of.len())].clone()
    }

    /// Draws a size: mostly small, sometimes 0 or 1, sometimes more than the threads of a block.
    fn size(&mut self) -> usize {
        match self.number(0, 12) {
            0 => 0,
            1 | 2 => 1,
            3 => self.number(90, 300),
            _ => self.number(2, 12),
        }
    }

    fn shape(&mut self, rank: usize) -> Vec<usize> {
        (0..rank).map(|_| self.size()).collect()
    }

    fn numbers(&mut self, range: (usize, usize), count: usize) -> Vec<usize> {
        (0..count).map(|_| self.number(range.0, range.1)).collect()
    }

    /// Draws a tensor of a shape: normal numbers, or numbers of every kind.
    fn tensor(&mut self, shape: &[usize]) -> Value {
        self.seed += 1;
        if self.chance(3) {
            self.make.wild(shape, self.dtype, self.seed)
        } else {
            self.make.normal(shape, self.dtype, self.seed)
        }
    }

    /// Draws indices into `size` places; occasionally one is out of range.
    fn indices(&mut self, shape: &[usize], size: usize) -> Value {
        self.seed += 1;
        let out_of_range = usize::from(self.chance(8));
        self.make.indices_of(shape, (size + out_of_range).max(1) as i64, self.seed)
    }
}

type Unary = fn(&Tensor) -> Result<Tensor>;
type Binary = fn(&Tensor, &Tensor) -> Result<Tensor>;

fn elementwise(cases: &mut Cases, draw: &mut Draw) {
    let rank = draw.number(0, 4);
    let shape = draw.shape(rank);
    let mut other = shape.clone();
    if let Some(size) = other.first_mut() {
        *size = 1;
    }
    let arguments = vec![draw.tensor(&shape), draw.tensor(&other)];
    let function = draw.one::<Binary>(&[f::add, f::sub, f::mul, f::div]);
    cases.graded(format!("binary {shape:?}"), arguments, move |x| function(&x[0], &x[1]));
    let function =
        draw.one::<Unary>(&[f::exp, f::log, f::sqrt, f::tanh, f::sigmoid, f::sin, f::erf]);
    cases.graded(format!("unary {shape:?}"), vec![draw.tensor(&shape)], move |x| function(&x[0]));
    let dim = draw.number(0, 3);
    let parts: Vec<Value> = (0..draw.number(1, 4))
        .map(|_| {
            let mut part = shape.clone();
            if let Some(size) = part.get_mut(dim) {
                *size = draw.size();
            }
            draw.tensor(&part)
        })
        .collect();
    cases.graded(format!("cat {shape:?} {dim}"), parts, move |x| f::cat(x, dim));
}

fn reductions(cases: &mut Cases, draw: &mut Draw) {
    let rank = draw.number(0, 4);
    let shape = draw.shape(rank);
    let dims: Vec<usize> = (0..rank).filter(|_| draw.chance(2)).collect();
    let x = draw.tensor(&shape);
    let which = draw.number(0, 7);
    let name = format!("reduction {which} {shape:?} {dims:?}");
    cases.graded(name, vec![x.clone()], move |x| match which {
        0 => f::sum(&x[0], &dims, true),
        1 => f::mean(&x[0], &dims, true),
        2 => f::prod(&x[0], &dims, true),
        3 => f::amax(&x[0], &dims, false),
        4 => f::var(&x[0], &dims, 1.0, true),
        5 => f::norm(&x[0], 2.0, &dims, false),
        _ => f::logsumexp(&x[0], &dims, false),
    });
    let dim = draw.number(0, 3);
    cases.graded(format!("softmax {shape:?} {dim}"), vec![x.clone()], move |x| {
        f::softmax(&x[0], dim)
    });
    let last: Vec<usize> = shape.iter().rev().take(draw.number(1, 3)).rev().copied().collect();
    let arguments = vec![x, draw.tensor(&last), draw.tensor(&last)];
    cases.graded(format!("layer_norm {shape:?} {last:?}"), arguments, move |x| {
        f::layer_norm(&x[0], &last, Some(&x[1]), Some(&x[2]), 1e-5)
    });
    let (n, classes) = (draw.size(), draw.number(1, 20));
    let target = draw.indices(&[n], classes);
    let logits = draw.tensor(&[n, classes]);
    cases.graded(format!("cross_entropy {n} {classes}"), vec![logits], move |x| {
        f::cross_entropy(&x[0], &Tensor::from(&target))
    });
}

fn contractions(cases: &mut Cases, draw: &mut Draw) {
    let (m, n, k) = (draw.size(), draw.size(), draw.size());
    let batch = draw.number(1, 4);
    let a = draw.tensor(&[batch, m, k]);
    let b = if draw.chance(2) { draw.tensor(&[batch, k, n]) } else { draw.tensor(&[k, n]) };
    cases.graded(format!("matmul {batch} {m} {k} {n}"), vec![a, b], |x| f::matmul(&x[0], &x[1]));
    let dims = draw.number(1, 4);
    let groups = draw.number(1, 3);
    let [inputs, outputs] = [draw.number(1, 4) * groups, draw.number(1, 4) * groups];
    let size = draw.numbers((1, 11), dims);
    let kernel = draw.numbers((1, 4), dims);
    let batch = draw.number(0, 3);
    let params = ConvParams {
        stride: draw.numbers((1, 4), dims),
        padding: draw.numbers((0, 3), dims),
        dilation: draw.numbers((1, 3), dims),
        groups,
    };
    let x = draw.tensor(&[&[batch, inputs], &size[..]].concat());
    let weight = draw.tensor(&[&[outputs, inputs / groups], &kernel[..]].concat());
    let bias = draw.tensor(&[outputs]);
    let name = format!("{batch} {inputs} {outputs} {size:?} {kernel:?} {params:?}");
    let (own, more) = (params.clone(), draw.numbers((0, 2), dims));
    cases.graded(format!("conv {name}"), vec![x.clone(), weight, bias], move |x| {
        f::conv(&x[0], &x[1], Some(&x[2]), &params)
    });
    let weight = draw.tensor(&[&[inputs, outputs / groups], &kernel[..]].concat());
    cases.graded(format!("conv_transpose {name}"), vec![x, weight], move |x| {
        f::conv_transpose(&x[0], &x[1], None, &own, &more)
    });
}

fn windows(cases: &mut Cases, draw: &mut Draw) {
    let dims = draw.number(1, 4);
    let shape = [draw.numbers((0, 4), 2), draw.numbers((1, 14), dims)].concat();
    let x = draw.tensor(&shape);
    let params = PoolParams {
        kernel: draw.numbers((1, 4), dims),
        stride: draw.numbers((1, 4), dims),
        padding: draw.numbers((0, 2), dims),
        dilation: draw.numbers((1, 3), dims),
        ceil_mode: draw.chance(2),
    };
    let name = format!("{shape:?} {params:?}");
    let (max, include) = (params.clone(), draw.chance(2));
    cases.graded(format!("max_pool {name}"), vec![x.clone()], move |x| {
        Ok(f::max_pool(&x[0], &max)?.0)
    });
    let avg = PoolParams { dilation: vec![1; dims], ..params };
    cases.graded(format!("avg_pool {name} {include}"), vec![x.clone()], move |x| {
        f::avg_pool(&x[0], &avg, include, None)
    });
    let size = draw.numbers((1, 16), dims);
    let other = size.clone();
    cases.graded(format!("adaptive_avg_pool {shape:?} {size:?}"), vec![x.clone()], move |x| {
        f::adaptive_avg_pool(&x[0], &size)
    });
    cases.graded(format!("adaptive_max_pool {shape:?} {other:?}"), vec![x], move |x| {
        Ok(f::adaptive_max_pool(&x[0], &other)?.0)
    });
}

fn resampling(cases: &mut Cases, draw: &mut Draw) {
    let dims = draw.number(1, 4);
    let shape = [draw.numbers((0, 4), 2), draw.numbers((1, 12), dims)].concat();
    let x = draw.tensor(&shape);
    let mode =
        draw.one(&[PadMode::Constant, PadMode::Reflect, PadMode::Replicate, PadMode::Circular]);
    let pads: Vec<i64> = (0..2 * dims).map(|_| draw.number(0, 6) as i64 - 2).collect();
    cases.graded(format!("pad {mode:?} {shape:?} {pads:?}"), vec![x.clone()], move |x| {
        f::pad(&x[0], &pads, mode, 0.5)
    });
    let (size, align_corners) = (draw.numbers((1, 16), dims), draw.chance(2));
    let mode = draw.one(&[
        InterpolateMode::Nearest,
        InterpolateMode::NearestExact,
        InterpolateMode::Linear { align_corners },
        InterpolateMode::Cubic { align_corners },
        InterpolateMode::LinearAntialias { align_corners },
    ]);
    cases.graded(format!("interpolate {mode:?} {shape:?} {size:?}"), vec![x], move |x| {
        f::interpolate(&x[0], Resize::Size(&size), mode)
    });
    let dims = draw.number(2, 4);
    let shape = [draw.numbers((1, 4), 2), draw.numbers((1, 9), dims)].concat();
    let points = [vec![shape[0]], draw.numbers((0, 7), dims), vec![dims]].concat();
    let params = GridParams {
        mode: draw.one(&[GridMode::Nearest, GridMode::Linear, GridMode::Cubic]),
        padding: draw.one(&[GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection]),
        align_corners,
    };
    let arguments = vec![draw.tensor(&shape), draw.tensor(&points)];
    cases.graded(format!("grid_sample {params:?} {shape:?} {points:?}"), arguments, move |x| {
        f::grid_sample(&x[0], &x[1], params)
    });
}

fn indexing(cases: &mut Cases, draw: &mut Draw) {
    let rank = draw.number(1, 4);
    let shape = draw.shape(rank);
    let dim = draw.number(0, rank);
    let part: Vec<usize> = (0..rank)
        .map(|d| if d == dim { draw.size() } else { draw.number(0, shape[d] + 1) })
        .collect();
    let index = draw.indices(&part, shape[dim]);
    let (x, source) = (draw.tensor(&shape), draw.tensor(&part));
    let name = format!("{shape:?} {dim} {part:?}");
    let both = vec![x.clone(), source.clone()];
    let places = index.clone();
    cases.graded(format!("gather {name}"), vec![x.clone()], move |x| {
        f::gather(&x[0], dim, &Tensor::from(&places))
    });
    let places = index.clone();
    cases.graded(format!("scatter_add {name}"), both, move |x| {
        f::scatter_add(&x[0], dim, &Tensor::from(&places), &x[1])
    });
    use ScatterReduceKind::{Amax, Amin, Mean, Prod, Sum};
    let (kind, include_self) = (draw.one(&[Sum, Mean, Prod, Amax, Amin]), draw.chance(2));
    let op = ScatterReduce { input: x.clone(), dim, index, source, kind, include_self };
    cases.add(format!("scatter_reduce {kind:?} {include_self} {name}"), op);
    let n = draw.size();
    let index = draw.indices(&[n], shape[dim]);
    let mut slices = shape.clone();
    slices[dim] = n;
    let source = draw.tensor(&slices);
    let places = index.clone();
    cases.graded(format!("index_select {name} {n}"), vec![x.clone()], move |x| {
        f::index_select(&x[0], dim, &Tensor::from(&places))
    });
    cases.graded(format!("index_add {name} {n}"), vec![x, source], move |x| {
        f::index_add(&x[0], dim, &Tensor::from(&index), &x[1], 0.7)
    });
    let (rows, width) = (draw.number(1, 40), draw.size());
    let table = draw.tensor(&[rows, width]);
    let index = draw.indices(&[n], rows);
    let places = index.clone();
    cases.graded(format!("embedding {rows} {width} {n}"), vec![table.clone()], move |x| {
        f::embedding_with(&x[0], &Tensor::from(&places), Some(0), true)
    });
    let starts: Vec<i64> = (0..draw.number(1, 5) as i64).map(|bag| bag * n as i64 / 5).collect();
    let offsets = Value::from_slice(&starts, &[starts.len()]).expect("as many");
    let offsets = draw.make.here(offsets);
    let mode = draw.one(&[BagMode::Sum, BagMode::Mean, BagMode::Max]);
    let name = format!("embedding_bag {mode:?} {rows} {width} {n}");
    cases.graded(name, vec![table], move |x| {
        let options = BagOptions { mode, ..BagOptions::default() };
        f::embedding_bag(&x[0], &Tensor::from(&index), Some(&Tensor::from(&offsets)), None, options)
    });
}

fn scans(cases: &mut Cases, draw: &mut Draw) {
    let rank = draw.number(0, 4);
    let shape = draw.shape(rank);
    let (dim, x) = (draw.number(0, 3), draw.tensor(&shape));
    type Scan = fn(&Tensor, usize) -> Result<Tensor>;
    let all: [(&str, Scan); 3] =
        [("cumsum", f::cumsum), ("cumprod", f::cumprod), ("logcumsumexp", f::logcumsumexp)];
    for (name, function) in all {
        cases.graded(format!("{name} {shape:?} {dim}"), vec![x.clone()], move |x| {
            function(&x[0], dim)
        });
    }
    let (k, largest) = (draw.number(0, 5), draw.chance(2));
    cases.graded(format!("sort {shape:?} {dim} {largest}"), vec![x.clone()], move |x| {
        Ok(f::sort(&x[0], dim, largest)?.0)
    });
    cases.graded(format!("topk {shape:?} {dim} {k} {largest}"), vec![x.clone()], move |x| {
        Ok(f::topk(&x[0], k, dim, largest)?.0)
    });
    cases.call(format!("unique {shape:?}"), move || {
        let (values, inverse, counts) = dispatch(&Unique { x: x.clone(), consecutive: false })?;
        Ok(vec![values, inverse, counts])
    });
}
