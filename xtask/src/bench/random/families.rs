//! The families of operations, and how a case of each is drawn.

use super::draw::{Case, Draw, Fill, Input, MOST, View, list};

type Family = (&'static str, fn(&mut Draw) -> Case);

/// Every family by its name.
pub(super) const FAMILIES: [Family; 17] = [
    ("elementwise", elementwise),
    ("reduce", reduce),
    ("softmax", softmax),
    ("norm", norm),
    ("loss", loss),
    ("index", index),
    ("matmul", matmul),
    ("conv", conv),
    ("pool", pool),
    ("resample", resample),
    ("scan", scan),
    ("sort", sort),
    ("attention", attention),
    ("linalg", linalg),
    ("optim", optim),
    ("arrange", arrange),
    ("models", models),
];

/// Returns the case of this number: a function of it and the seed. Of as many cases as there are
/// families, beginning at a multiple of that, each is of another family.
pub(crate) fn case(seed: u64, id: u64) -> Case {
    let families = FAMILIES.len();
    let block = id / families as u64;
    let order = Draw::new(seed ^ 0x5555_5555_5555_5555, block).order(families);
    let (family, draw) = FAMILIES[order[(id % families as u64) as usize]];
    let mut numbers = Draw::new(seed, id);
    let mut case = draw(&mut numbers);
    (case.id, case.family) = (id, family);
    if family != "models" && numbers.chance(0.25) {
        case.dtype = "f64";
    }
    if case.both {
        case.fmas *= 3.0;
    }
    case
}

/// Returns sizes of `shape` that broadcast to it: some are 1, and some of the first are missing.
fn narrower(draw: &mut Draw, shape: &[usize]) -> Vec<usize> {
    let missing = if draw.chance(0.3) { draw.int(0, shape.len()) } else { 0 };
    let some_one = draw.chance(0.5);
    let size = |&size: &usize| if some_one && draw.chance(0.5) { 1 } else { size };
    shape[missing..].iter().map(size).collect()
}

fn both(draw: &mut Draw, case: Case) -> Case {
    Case { both: draw.chance(0.5), ..case }
}

fn elementwise(draw: &mut Draw) -> Case {
    const SIGNED: [&str; 22] = [
        "exp",
        "tanh",
        "sigmoid",
        "sin",
        "cos",
        "erf",
        "expm1",
        "relu",
        "gelu",
        "gelu_tanh",
        "silu",
        "abs",
        "neg",
        "square",
        "leaky_relu",
        "softplus",
        "elu",
        "mish",
        "hardswish",
        "log_sigmoid",
        "clamp",
        "affine",
    ];
    const POSITIVE: [&str; 6] = ["log", "sqrt", "rsqrt", "reciprocal", "log1p", "log2"];
    const BINARY: [&str; 8] = ["add", "sub", "mul", "div", "maximum", "minimum", "pow", "lt"];
    let shape = draw.any_shape();
    match draw.int(0, 4) {
        0 => {
            let case = Case::new(draw.pick(&SIGNED), vec![draw.laid_out(&shape)]);
            both(draw, case)
        }
        1 => {
            let input = draw.laid_out(&shape).fill(Fill::Positive);
            let case = Case::new(draw.pick(&POSITIVE), vec![input]);
            both(draw, case)
        }
        2 | 3 => {
            let op = draw.pick(&BINARY);
            let other = if draw.chance(0.5) { narrower(draw, &shape) } else { shape.clone() };
            let fill = if matches!(op, "div" | "pow") { Fill::Positive } else { Fill::Normal };
            let mut inputs =
                vec![draw.laid_out(&shape).fill(fill), draw.laid_out(&other).fill(fill)];
            if draw.chance(0.3) {
                inputs.reverse();
            }
            let case = Case::new(op, inputs);
            if op == "lt" { case } else { both(draw, case) }
        }
        _ => {
            let op = draw.pick(&["where", "addcmul", "lerp", "masked_fill"]);
            let fill =
                if matches!(op, "where" | "masked_fill") { Fill::Mask } else { Fill::Normal };
            let mut inputs = vec![draw.laid_out(&shape).fill(fill), draw.laid_out(&shape)];
            if op != "masked_fill" {
                let other = narrower(draw, &shape);
                inputs.push(draw.laid_out(&other));
            }
            let case = Case::new(op, inputs);
            both(draw, case)
        }
    }
}

fn reduce(draw: &mut Draw) -> Case {
    const DIFFERENTIABLE: [&str; 10] =
        ["sum", "sum", "mean", "mean", "var", "std", "amax", "amin", "logsumexp", "norm"];
    let shape = draw.any_shape();
    let input = draw.laid_out(&shape);
    if draw.chance(0.25) {
        let op = draw.pick(&["argmax", "argmin", "max", "min", "any", "all", "prod"]);
        let dim = draw.int(0, shape.len() - 1);
        let input = if matches!(op, "any" | "all") { input.fill(Fill::Mask) } else { input };
        return Case::new(op, vec![input]).with("dim", dim);
    }
    let dims = draw.some_of(shape.len());
    let case = Case::new(draw.pick(&DIFFERENTIABLE), vec![input]);
    let case = case.with("dims", list(&dims)).with("keepdim", draw.chance(0.3));
    Case { both: draw.chance(0.3), ..case }
}

fn softmax(draw: &mut Draw) -> Case {
    let shape = draw.any_shape();
    let input = draw.laid_out(&shape);
    let op = draw.pick(&["softmax", "softmax", "log_softmax"]);
    let case = Case::new(op, vec![input]).with("dim", draw.int(0, shape.len() - 1));
    both(draw, case)
}

fn norm(draw: &mut Draw) -> Case {
    let op = draw.pick(&["layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm"]);
    let elements = draw.elements();
    let case = if matches!(op, "layer_norm" | "rms_norm") {
        let rank = draw.int(1, 4);
        let shape = draw.shape(rank, elements);
        let normalized = if draw.chance(0.7) { 1 } else { draw.int(1, rank) };
        let weight = &shape[rank - normalized..];
        let mut inputs = vec![draw.laid_out(&shape), Input::dense(weight)];
        if op == "layer_norm" {
            inputs.push(Input::dense(weight));
        }
        Case::new(op, inputs)
    } else {
        let least = if op == "instance_norm" { 3 } else { 2 };
        let rank = draw.int(least, 5);
        let mut shape = draw.shape(rank, elements);
        // A channel needs two values.
        shape[0] = shape[0].max(2);
        shape[rank - 1] = if op == "batch_norm" { shape[rank - 1] } else { shape[rank - 1].max(2) };
        let groups = draw.pick(&[1, 2, 4, 8]);
        if op == "group_norm" {
            shape[1] = shape[1].next_multiple_of(groups);
        }
        let weight = || Input::dense(&shape[1..2]);
        let case = Case::new(op, vec![draw.laid_out(&shape), weight(), weight()]);
        if op == "group_norm" { case.with("groups", groups) } else { case }
    };
    both(draw, case)
}

fn loss(draw: &mut Draw) -> Case {
    let op = draw.pick(&[
        "cross_entropy",
        "cross_entropy",
        "cross_entropy",
        "nll_loss",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "binary_cross_entropy",
        "bce_with_logits",
        "kl_div",
    ]);
    let reduction = draw.pick(&["mean", "mean", "sum", "none"]);
    let case = if matches!(op, "cross_entropy" | "nll_loss") {
        let elements = draw.elements();
        let rank = draw.pick(&[2, 2, 2, 3, 4]);
        let shape = draw.shape(rank, elements);
        let target: Vec<usize> = [&shape[..1], &shape[2..]].concat();
        Case::new(op, vec![draw.laid_out(&shape), draw.indices(&target, shape[1])])
    } else {
        let shape = draw.any_shape();
        let fill = if op == "binary_cross_entropy" { Fill::Unit } else { Fill::Normal };
        let target = Input::dense(&shape).fill(Fill::Unit).constant();
        Case::new(op, vec![draw.laid_out(&shape).fill(fill), target])
    };
    let case = case.with("reduction", reduction);
    both(draw, case)
}

fn index(draw: &mut Draw) -> Case {
    let op = draw.pick(&[
        "gather",
        "index_select",
        "index_add",
        "index_add",
        "scatter_add",
        "scatter_reduce",
        "embedding",
        "embedding_bag",
        "index_copy",
        "bincount",
    ]);
    let elements = draw.elements();
    match op {
        "embedding" | "embedding_bag" => {
            let (rows, width) = (draw.log(2, 1 << 17), draw.log(1, 1024));
            let rows = rows.min(MOST / width);
            let count = (elements / width).max(2);
            let shape = if op == "embedding" && draw.chance(0.5) {
                vec![count]
            } else {
                draw.shape(2, count)
            };
            let inputs = vec![Input::dense(&[rows, width]), draw.indices(&shape, rows)];
            let case = Case::new(op, inputs);
            let case = if op == "embedding_bag" {
                case.with("mode", draw.pick(&["sum", "mean"]))
            } else {
                case
            };
            both(draw, case)
        }
        "bincount" => {
            let bins = draw.log(2, 1 << 20);
            let index = draw.indices(&[elements], bins);
            let weights = draw.chance(0.5).then(|| Input::dense(&[elements]));
            let inputs = [index].into_iter().chain(weights).collect();
            Case::new(op, inputs).with("bins", bins)
        }
        _ => {
            let rank = draw.int(1, 4);
            let shape = draw.shape(rank, elements);
            let dim = draw.int(0, rank - 1);
            // The other side has another number of slices, up to as many elements as there may be.
            let slice = (shape.iter().product::<usize>() / shape[dim]).max(1);
            let count = draw.log(1, (MOST / slice).clamp(1, 1 << 21));
            let mut other = shape.clone();
            other[dim] = count;
            let high = shape[dim];
            let along = op == "gather" || op.starts_with("scatter");
            let index_shape = if along { other.clone() } else { vec![count] };
            let mut index = draw.indices(&index_shape, high);
            if op == "index_copy" {
                // PyTorch leaves open which of equal indices wins, so few of them are equal.
                index = index.fill(Fill::Uniform(high));
            }
            let input = draw.laid_out(&shape);
            let case = if matches!(op, "gather" | "index_select") {
                Case::new(op, vec![input, index])
            } else {
                Case::new(op, vec![input, index, draw.laid_out(&other)])
            };
            let case = case.with("dim", dim);
            if op == "scatter_reduce" {
                let kind = draw.pick(&["sum", "mean", "prod", "amax", "amin"]);
                return case.with("reduce", kind).with("include_self", draw.chance(0.5));
            }
            both(draw, case)
        }
    }
}

/// Returns `[m, k, n]` of a product with no factor larger than the largest tensor.
fn product(draw: &mut Draw) -> [usize; 3] {
    loop {
        // Up to 2^36 multiplications, whatever the aspect.
        let shape = draw.log(10, 1 << 36);
        let drawn = draw.shape(3, shape);
        let (m, k, n) = match draw.int(0, 7) {
            0 => (drawn[0], drawn[1], 1),
            1 => (1, drawn[1], drawn[2]),
            _ => (drawn[0], drawn[1], drawn[2]),
        };
        if m * k <= MOST && k * n <= MOST && m * n <= MOST {
            return [m, k, n];
        }
    }
}

/// Returns a matrix, or batch of them, in half of the cases the transpose of one.
fn maybe_transposed(draw: &mut Draw, shape: &[usize]) -> Input {
    let dense = Input::dense(shape);
    if draw.chance(0.5) {
        return dense;
    }
    let rank = shape.len();
    let (mut base, mut order) = (shape.to_vec(), (0..rank).collect::<Vec<_>>());
    base.swap(rank - 2, rank - 1);
    order.swap(rank - 2, rank - 1);
    Input { shape: base, views: vec![View::Permute(order)], ..dense }
}

fn matmul(draw: &mut Draw) -> Case {
    let op = draw.pick(&["matmul", "matmul", "bmm", "bmm", "linear", "mv", "addmm"]);
    let [m, k, n] = product(draw);
    let case = match op {
        "bmm" => {
            let most = (MOST / (m * k).max(k * n).max(m * n)).max(1);
            let work = ((1usize << 36) / (m * k * n)).max(1);
            let batch = draw.log(1, most.min(work));
            let inputs = vec![
                maybe_transposed(draw, &[batch, m, k]),
                maybe_transposed(draw, &[batch, k, n]),
            ];
            Case::new(op, inputs).fmas((batch * m * k * n) as f64)
        }
        "mv" => Case::new(op, vec![maybe_transposed(draw, &[m, k]), Input::dense(&[k])])
            .fmas((m * k) as f64),
        "linear" => {
            let inputs = vec![draw.laid_out(&[m, k]), Input::dense(&[n, k]), Input::dense(&[n])];
            Case::new(op, inputs).fmas((m * k * n) as f64)
        }
        "addmm" => {
            let bias = draw.pick(&[[1, 1], [1, 0], [0, 0]]);
            let bias = [if bias[0] == 1 { 1 } else { m }, if bias[1] == 1 { 1 } else { n }];
            let factors = [maybe_transposed(draw, &[m, k]), maybe_transposed(draw, &[k, n])];
            let inputs = [Input::dense(&bias)].into_iter().chain(factors).collect();
            Case::new(op, inputs).fmas((m * k * n) as f64)
        }
        _ => Case::new(op, vec![maybe_transposed(draw, &[m, k]), maybe_transposed(draw, &[k, n])])
            .fmas((m * k * n) as f64),
    };
    Case { both: draw.chance(0.3), ..case }
}

fn conv(draw: &mut Draw) -> Case {
    let rank = draw.pick(&[1, 1, 2, 2, 2, 2, 3]);
    let transposed = draw.chance(0.15);
    loop {
        let kernel: Vec<usize> = (0..rank).map(|_| draw.pick(&[1, 2, 3, 3, 3, 4, 5, 7])).collect();
        let space = draw.log(1, [0, 1 << 16, 1 << 16, 1 << 15][rank]);
        let padding = draw.int(0, 3);
        let mut sizes = draw.shape(rank, space);
        for (size, kernel) in sizes.iter_mut().zip(&kernel) {
            *size = (*size).max(*kernel * 2);
        }
        let (stride, dilation) =
            (draw.pick(&[1usize, 1, 1, 2, 3]), draw.pick(&[1usize, 1, 1, 1, 2]));
        let (batch, channels, outs) = (draw.log(1, 128), draw.log(1, 512), draw.log(1, 512));
        let groups = match draw.int(0, 5) {
            0 => channels,
            1 => draw.pick(&[2, 4, 8]),
            _ => 1,
        };
        let channels = channels.next_multiple_of(groups);
        let outs = if groups == channels && draw.chance(0.7) {
            channels
        } else {
            outs.next_multiple_of(groups)
        };
        let taps: usize = kernel.iter().product();
        let elements = batch * channels * sizes.iter().product::<usize>();
        let results = batch * outs * sizes.iter().product::<usize>();
        // Each output meets all taps once, or, if transposed, each input.
        let spread = stride.pow(rank as u32);
        let meetings = if transposed { elements } else { results.div_ceil(spread) };
        let others = if transposed { outs } else { channels } / groups;
        let work = (meetings * others * taps) as f64;
        let scaled = if transposed { results * spread } else { results };
        let too_large = elements.max(scaled) > MOST || work > (1u64 << 35) as f64;
        if too_large {
            continue;
        }
        let padding: Vec<usize> = kernel.iter().map(|kernel| padding.min(kernel / 2)).collect();
        let mut shape = vec![batch, channels];
        shape.extend(&sizes);
        let mut weight =
            if transposed { vec![channels, outs / groups] } else { vec![outs, channels / groups] };
        weight.extend(&kernel);
        let mut inputs = vec![draw.laid_out(&shape), Input::dense(&weight)];
        if draw.chance(0.5) {
            inputs.push(Input::dense(&[outs]));
        }
        let name = if transposed { "conv_transpose" } else { "conv" };
        let case = Case::new(name, inputs)
            .with("stride", list(&vec![stride; rank]))
            .with("padding", list(&padding))
            .with("dilation", list(&vec![dilation; rank]))
            .with("groups", groups)
            .fmas(work);
        return both(draw, case);
    }
}

fn pool(draw: &mut Draw) -> Case {
    let op = draw.pick(&["max_pool", "max_pool", "avg_pool", "avg_pool", "adaptive_avg_pool"]);
    let rank = draw.pick(&[1, 2, 2, 2, 3]);
    let elements = draw.elements();
    let mut shape = draw.shape(rank + 2, elements);
    if op == "adaptive_avg_pool" {
        let size: Vec<usize> = shape[2..].iter().map(|&size| draw.int(1, size.min(8))).collect();
        let case = Case::new(op, vec![draw.laid_out(&shape)]).with("size", list(&size));
        return both(draw, case);
    }
    let kernel = draw.pick(&[2, 2, 3, 3, 5]);
    for size in &mut shape[2..] {
        *size = (*size).max(kernel);
    }
    if shape.iter().product::<usize>() > MOST {
        shape[0] = 1;
    }
    let padding = if draw.chance(0.4) { kernel / 2 } else { 0 };
    let case = Case::new(op, vec![draw.laid_out(&shape)])
        .with("kernel", list(&vec![kernel; rank]))
        .with("stride", list(&vec![draw.int(1, kernel); rank]))
        .with("padding", list(&vec![padding; rank]));
    both(draw, case)
}

fn resample(draw: &mut Draw) -> Case {
    let op =
        draw.pick(&["interpolate", "interpolate", "grid_sample", "pad", "pad", "pixel_shuffle"]);
    let elements = draw.log(40, 1 << 24);
    match op {
        "interpolate" => {
            let shape = draw.shape(4, elements);
            let most = (MOST / (shape[0] * shape[1])).max(1);
            let size: Vec<usize> = shape[2..]
                .iter()
                .map(|&size| {
                    ((size as f64 * draw.pick(&[0.4, 0.5, 1.5, 2.0, 3.0])) as usize).max(1)
                })
                .collect();
            let size =
                if size.iter().product::<usize>() > most { shape[2..].to_vec() } else { size };
            let mode = draw.pick(&["nearest", "bilinear", "bilinear", "bicubic"]);
            let case = Case::new(op, vec![draw.laid_out(&shape)]);
            let case = case.with("size", list(&size)).with("mode", mode);
            both(draw, case)
        }
        "grid_sample" => {
            let shape = draw.shape(4, elements);
            let most = (MOST / (shape[0] * shape[1]).max(shape[0] * 2)).max(1);
            let points = draw.log(1, most.min(1 << 20));
            let size = draw.shape(2, points);
            let grid = [shape[0], size[0], size[1], 2];
            let inputs = vec![draw.laid_out(&shape), Input::dense(&grid).fill(Fill::Unit)];
            let case = Case::new(op, inputs).with("mode", draw.pick(&["bilinear", "nearest"]));
            both(draw, case)
        }
        "pad" => {
            let rank = draw.pick(&[1, 2, 2, 3]);
            let mut shape = draw.shape(rank + 2, elements);
            for size in &mut shape[2..] {
                *size = (*size).max(4);
            }
            let mode = draw.pick(&["constant", "reflect", "replicate", "circular"]);
            let pads: Vec<usize> = (0..2 * rank).map(|_| draw.int(0, 3)).collect();
            let case = Case::new(op, vec![draw.laid_out(&shape)]);
            let case = case.with("pads", list(&pads)).with("mode", mode);
            both(draw, case)
        }
        _ => {
            let factor = draw.pick(&[2, 2, 3, 4]);
            let mut shape = draw.shape(4, elements);
            shape[1] = shape[1].next_multiple_of(factor * factor);
            let case = Case::new(op, vec![draw.laid_out(&shape)]).with("factor", factor);
            both(draw, case)
        }
    }
}

fn scan(draw: &mut Draw) -> Case {
    let shape = draw.any_shape();
    let op = draw.pick(&["cumsum", "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"]);
    let case = Case::new(op, vec![draw.laid_out(&shape)]).with("dim", draw.int(0, shape.len() - 1));
    Case { both: op == "cumsum" && draw.chance(0.5), ..case }
}

fn sort(draw: &mut Draw) -> Case {
    let op =
        draw.pick(&["sort", "sort", "argsort", "topk", "topk", "kthvalue", "median", "unique"]);
    if op == "unique" {
        let elements = draw.elements();
        let high = draw.log(2, 1 << 24);
        return Case::new(op, vec![draw.indices(&[elements], high)]);
    }
    let shape = draw.any_shape();
    let dim = draw.int(0, shape.len() - 1);
    let case = Case::new(op, vec![draw.laid_out(&shape)]).with("dim", dim);
    match op {
        "topk" | "kthvalue" => {
            let k = draw.log(1, shape[dim]);
            case.with("k", if draw.chance(0.7) { k.min(100) } else { k })
        }
        "median" => case,
        _ => case.with("descending", draw.chance(0.3)),
    }
}

fn attention(draw: &mut Draw) -> Case {
    loop {
        let (batch, heads) = (draw.log(1, 64), draw.log(1, 16));
        let (queries, width) = (draw.log(1, 2048), draw.pick(&[8, 16, 32, 40, 64, 64, 96, 128]));
        let keys = if draw.chance(0.7) { queries } else { draw.log(1, 2048) };
        let scores = batch * heads * queries * keys;
        if scores > MOST || batch * heads * keys.max(queries) * width > MOST {
            continue;
        }
        // Heads are most often a view of `[batch, length, heads, width]`.
        let viewed = draw.chance(0.6);
        let input = |length: usize| {
            if viewed {
                let order = View::Permute(vec![0, 2, 1, 3]);
                let dense = Input::dense(&[batch, length, heads, width]);
                Input { views: vec![order], ..dense }
            } else {
                Input::dense(&[batch, heads, length, width])
            }
        };
        let inputs = vec![input(queries), input(keys), input(keys)];
        let case = Case::new("attention", inputs)
            .with("causal", queries == keys && draw.chance(0.5))
            .fmas((2 * scores * width) as f64);
        return both(draw, case);
    }
}

fn linalg(draw: &mut Draw) -> Case {
    let op = draw.pick(&["qr", "svd"]);
    // Work of up to 2^28 in one matrix, and of 2^26 in a batch of smaller ones.
    let (m, n) = (draw.log(2, 1024), draw.log(2, 512));
    let work = m * n * m.min(n);
    let batch = if draw.chance(0.5) { 1 } else { draw.log(1, ((1usize << 26) / work).max(1)) };
    let batch = batch.min(MOST / (m * n));
    let shape = if batch == 1 { vec![m, n] } else { vec![batch, m, n] };
    Case::new(op, vec![draw.laid_out(&shape)]).fmas((batch * work) as f64)
}

fn optim(draw: &mut Draw) -> Case {
    let op = draw.pick(&["sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad"]);
    let tensors = draw.log(1, 100);
    let elements = draw.log(10 * tensors, MOST / 2);
    let inputs = (0..tensors)
        .map(|_| {
            let (rank, elements) = (draw.int(1, 2), elements / tensors);
            Input::dense(&draw.shape(rank, elements))
        })
        .collect();
    Case::new(op, inputs)
}

fn arrange(draw: &mut Draw) -> Case {
    let op =
        draw.pick(&["contiguous", "contiguous", "cat", "stack", "flip", "roll", "repeat", "tril"]);
    let elements = draw.log(10, MOST / 4);
    let rank = draw.int(2, 5);
    let shape = draw.shape(rank, elements);
    let dim = draw.int(0, rank - 1);
    match op {
        "contiguous" => {
            let order = View::Permute(draw.order(rank));
            let input = Input { views: vec![order], ..Input::dense(&shape) };
            Case::new(op, vec![input])
        }
        "cat" | "stack" => {
            let inputs = (0..draw.int(2, 4)).map(|_| draw.laid_out(&shape)).collect();
            let case = Case::new(op, inputs).with("dim", dim);
            both(draw, case)
        }
        "flip" => {
            Case::new(op, vec![draw.laid_out(&shape)]).with("dims", list(&draw.some_of(rank)))
        }
        "roll" => {
            let shift = draw.int(0, shape[dim]);
            Case::new(op, vec![draw.laid_out(&shape)]).with("dim", dim).with("shift", shift)
        }
        "repeat" => {
            let mut sizes = vec![1; rank];
            sizes[dim] = draw.int(2, 4);
            Case::new(op, vec![draw.laid_out(&shape)]).with("sizes", list(&sizes))
        }
        _ => Case::new(op, vec![draw.laid_out(&shape)]).with("diagonal", draw.int(0, 3)),
    }
}

fn models(draw: &mut Draw) -> Case {
    let op = draw.pick(&["mlp", "mlp", "cnn", "transformer", "lstm", "gru"]);
    let (batch, train) = (draw.log(1, 256), draw.chance(0.6));
    let depth = draw.int(1, 5);
    let optimizer = draw.pick(&["sgd", "adam"]);
    let norm = draw.chance(0.5);
    let case = Case::new(op, Vec::new())
        .with("batch", batch)
        .with("depth", depth)
        .with("train", train)
        .with("optimizer", optimizer);
    match op {
        "mlp" => {
            let (inputs, width) = (draw.log(1, 2000), draw.log(1, 1500));
            let fmas = batch * (inputs * width + (depth - 1) * width * width + width * 10);
            let case = case.with("inputs", inputs).with("width", width).with("norm", norm);
            case.fmas(fmas as f64 * if train { 3.0 } else { 1.0 })
        }
        "cnn" => {
            let (width, size) = (draw.log(1, 96), draw.int(5, 40));
            let batch = batch.min(64);
            let fmas = batch * size * size * 9 * width * (3 + (depth - 1) * width);
            let case = case.with("batch", batch).with("width", width).with("size", size);
            case.with("norm", norm).fmas(fmas as f64 * if train { 3.0 } else { 1.0 })
        }
        "transformer" => {
            let (heads, per_head, length) = (draw.int(1, 8), draw.int(3, 48), draw.log(1, 160));
            let (depth, width) = (depth.min(3), heads * per_head);
            let batch = batch.min(((1 << 18) / (length * width)).max(1));
            let fmas = batch * length * depth * (12 * width * width + 2 * length * width);
            let case = case.with("batch", batch).with("depth", depth).with("heads", heads);
            let case = case.with("width", width).with("length", length);
            case.fmas(fmas as f64 * if train { 3.0 } else { 1.0 })
        }
        _ => {
            let (inputs, width) = (draw.log(1, 300), draw.log(1, 300));
            let (length, depth, batch) = (draw.log(1, 100), depth.min(2), batch.min(64));
            let gates = if op == "lstm" { 4 } else { 3 };
            let first = inputs + width + (depth - 1) * 2 * width;
            let fmas = batch * length * gates * width * first;
            let case = case.with("inputs", inputs).with("width", width).with("length", length);
            let case = case.with("batch", batch).with("depth", depth);
            case.fmas(fmas as f64 * if train { 3.0 } else { 1.0 })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn equal_seeds_draw_equal_cases() {
        let list = |seed| (0..300).map(|id| case(seed, id)).collect::<Vec<_>>();
        assert_eq!(list(7), list(7));
        assert_ne!(list(7), list(8));
    }

    #[test]
    fn a_case_alone_is_the_one_of_the_list() {
        let all: Vec<Case> = (0..200).map(|id| case(3, id)).collect();
        for id in [199, 0, 17, 101] {
            assert_eq!(case(3, id), all[id as usize]);
            assert_eq!(all[id as usize].id, id);
        }
    }

    #[test]
    fn every_family_is_drawn() {
        for seed in 0..20 {
            let drawn: BTreeSet<&str> =
                (0..FAMILIES.len() as u64).map(|id| case(seed, id).family).collect();
            assert_eq!(drawn.len(), FAMILIES.len());
        }
    }

    #[test]
    fn sizes_are_within_what_is_drawn() {
        for id in 0..5000 {
            let case = case(11, id);
            for input in &case.inputs {
                let elements: usize = input.shape.iter().product();
                assert!((1..=MOST + MOST / 8).contains(&elements), "{}", case.title());
            }
        }
    }
}
