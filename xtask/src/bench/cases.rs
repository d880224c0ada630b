//! Chosen cases for a GPU, of sizes that fill one, and smaller for a CPU: every operation with a
//! deterministic and an atomic variant, and what users wait for.

use serde_json::{Value, json};

use super::random::draw::{Case, Fill, Input, View, list};

/// Divides the large dimension of a case, for devices that are slower than a GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale(pub(crate) usize);

impl Scale {
    fn of(self, n: usize) -> usize {
        (n / self.0).max(8)
    }
}

/// Returns the questions to both programs: each case at both levels.
pub(crate) fn questions(scale: Scale) -> Vec<Value> {
    let ask =
        |case: &Case, level: &str| json!({ "time": case, "name": case.title(), "level": level });
    let cases = cases(scale);
    cases
        .iter()
        .flat_map(|case| ["portable", "not_guaranteed"].map(|level| ask(case, level)))
        .collect()
}

/// Returns the families of the cases, in order.
pub(crate) fn families() -> Vec<&'static str> {
    let mut families: Vec<_> = cases(Scale(1)).iter().map(|case| case.family).collect();
    families.dedup();
    families
}

/// Returns the cases, family by family.
pub(crate) fn cases(scale: Scale) -> Vec<Case> {
    let all: [(&'static str, Vec<Case>); 12] = [
        ("elementwise", elementwise(scale)),
        ("matmul", matmul(scale)),
        ("attention", attention(scale)),
        ("conv", conv(scale)),
        ("norm", norm(scale)),
        ("reduce", reduce(scale)),
        ("index", index(scale)),
        ("pool", pool(scale)),
        ("resample", resample(scale)),
        ("scan", scan(scale)),
        ("sort", sort(scale)),
        ("models", models(scale)),
    ];
    let mut id = 0;
    all.into_iter()
        .flat_map(|(family, cases)| cases.into_iter().map(move |case| Case { family, ..case }))
        .map(|case| {
            id += 1;
            Case { id, ..case }
        })
        .collect()
}

fn both(case: Case) -> Case {
    Case { both: true, ..case }
}

fn dense(shape: &[usize]) -> Input {
    Input::dense(shape)
}

fn uniform(shape: &[usize], high: usize) -> Input {
    dense(shape).fill(Fill::Uniform(high))
}

fn skewed(shape: &[usize], high: usize) -> Input {
    dense(shape).fill(Fill::Skewed(high))
}

fn elementwise(scale: Scale) -> Vec<Case> {
    let (many, rows) = (scale.of(1 << 26), scale.of(1 << 16));
    let one = |op: &str| Case::new(op, vec![dense(&[many])]);
    let adam = |size: usize, tensors: usize| Case::new("adam", vec![dense(&[size]); tensors]);
    let transposed = Input { views: vec![View::Permute(vec![1, 0])], ..dense(&[rows, 512]) };
    vec![
        // A read and a write of each element: the bandwidth of a copy.
        one("affine"),
        one("relu"),
        one("exp"),
        one("gelu"),
        both(one("gelu")),
        Case::new("add", vec![dense(&[many]), dense(&[many])]),
        Case::new("add", vec![dense(&[rows, 1024]), dense(&[1024])]),
        // A view whose first element is not aligned for vectors.
        Case::new(
            "exp",
            vec![Input { views: vec![View::Narrow(0, 1, many - 1)], ..dense(&[many]) }],
        ),
        Case::new("contiguous", vec![transposed]),
        adam(scale.of(1 << 24), 1),
        adam(scale.of(1 << 16), 64),
    ]
}

fn matmul(scale: Scale) -> Vec<Case> {
    let square = |n: usize| {
        let n = scale.of(n);
        Case::new("matmul", vec![dense(&[n, n]), dense(&[n, n])]).fmas((n * n * n) as f64)
    };
    let k = scale.of(1 << 16);
    vec![
        square(1024),
        square(4096),
        square(8192),
        Case::new("matmul", vec![dense(&[64, k]), dense(&[k, 64])]).fmas((64 * 64 * k) as f64),
        Case::new("mv", vec![dense(&[scale.of(8192), 1024]), dense(&[1024])]),
        Case::new("bmm", vec![dense(&[scale.of(512), 64, 64]), dense(&[scale.of(512), 64, 64])]),
    ]
}

fn attention(scale: Scale) -> Vec<Case> {
    let mut cases = Vec::new();
    for (batch, heads, length, width) in [(4, 16, 1024, 64), (1, 8, 4096, 128)] {
        let input = || dense(&[batch, heads, scale.of(length), width]);
        for causal in [false, true] {
            let case =
                Case::new("attention", vec![input(), input(), input()]).with("causal", causal);
            cases.extend([case.clone(), both(case)]);
        }
    }
    cases
}

fn conv(scale: Scale) -> Vec<Case> {
    let conv = |batch: usize,
                channels: usize,
                size: usize,
                outs: usize,
                kernel: usize,
                stride: usize,
                groups: usize| {
        let inputs = vec![
            dense(&[scale.of(batch), channels, size, size]),
            dense(&[outs, channels / groups, kernel, kernel]),
        ];
        Case::new("conv", inputs)
            .with("stride", list(&[stride; 2]))
            .with("padding", list(&[kernel / 2; 2]))
            .with("dilation", list(&[1; 2]))
            .with("groups", groups)
    };
    let three = conv(32, 64, 56, 64, 3, 1, 1);
    let first = conv(32, 3, 224, 64, 7, 2, 1);
    let depthwise = conv(32, 128, 56, 128, 3, 1, 128);
    vec![
        three.clone(),
        both(three),
        both(first),
        both(depthwise),
        both(conv(32, 256, 28, 512, 1, 1, 1)),
    ]
}

fn norm(scale: Scale) -> Vec<Case> {
    let (rows, classes) = (scale.of(1 << 15), 32_000);
    let layer = Case::new("layer_norm", vec![dense(&[rows, 768]), dense(&[768]), dense(&[768])]);
    let channels = || dense(&[64]);
    let images = dense(&[scale.of(128), 64, 56, 56]);
    let softmax = Case::new("softmax", vec![dense(&[rows, 1024])]).with("dim", 1);
    let targets = vec![dense(&[scale.of(4096), classes]), uniform(&[scale.of(4096)], classes)];
    vec![
        layer.clone(),
        both(layer),
        both(Case::new("rms_norm", vec![dense(&[rows, 768]), dense(&[768])])),
        both(Case::new("batch_norm", vec![images, channels(), channels()])),
        softmax.clone(),
        both(softmax),
        both(Case::new("cross_entropy", targets).with("reduction", "mean")),
    ]
}

fn reduce(scale: Scale) -> Vec<Case> {
    let rows = scale.of(1 << 14);
    let sum = |op: &str, dims: &[usize]| {
        Case::new(op, vec![dense(&[rows, 4096])]).with("dims", list(dims)).with("keepdim", false)
    };
    vec![
        sum("sum", &[0, 1]),
        sum("sum", &[0]),
        sum("sum", &[1]),
        sum("amax", &[0]),
        sum("logsumexp", &[1]),
        Case::new("argmax", vec![dense(&[rows, 4096])]).with("dim", 1),
    ]
}

fn index(scale: Scale) -> Vec<Case> {
    let (rows, width, count) = (100_000, 64, scale.of(1 << 20));
    let table = || dense(&[rows, width]);
    let along = |op: &str, index: Input| {
        let source = dense(&[index.shape[0], width]);
        Case::new(op, vec![table(), index, source]).with("dim", 0)
    };
    let flat = scale.of(1 << 24);
    let scatter = |op: &str, index: Input| {
        Case::new(op, vec![dense(&[1 << 20]), index, dense(&[flat])]).with("dim", 0)
    };
    let bag =
        |index: Input| both(Case::new("embedding_bag", vec![table(), index]).with("mode", "mean"));
    let bincount = |bins: usize| {
        Case::new("bincount", vec![uniform(&[flat], bins), dense(&[flat])]).with("bins", bins)
    };
    vec![
        along("index_add", uniform(&[count], rows)),
        along("index_add", skewed(&[count], rows)),
        along("index_copy", uniform(&[count], rows)),
        both(Case::new("index_select", vec![table(), uniform(&[count], rows)]).with("dim", 0)),
        scatter("scatter_add", uniform(&[flat], 1 << 20)),
        scatter("scatter_add", skewed(&[flat], 1 << 20)),
        scatter("scatter_reduce", uniform(&[flat], 1 << 20))
            .with("reduce", "amax")
            .with("include_self", true),
        scatter("scatter_reduce", uniform(&[flat], 1 << 20))
            .with("reduce", "mean")
            .with("include_self", true),
        both(
            Case::new("gather", vec![dense(&[1 << 20]), uniform(&[flat], 1 << 20)]).with("dim", 0),
        ),
        both(Case::new("embedding", vec![table(), uniform(&[count], rows)])),
        both(Case::new("embedding", vec![table(), skewed(&[count], rows)])),
        bag(uniform(&[count / 32, 32], rows)),
        bag(skewed(&[count / 32, 32], rows)),
        bincount(100),
        bincount(100_000),
    ]
}

fn pool(scale: Scale) -> Vec<Case> {
    let images = || dense(&[scale.of(64), 64, 112, 112]);
    let windows = |op: &str, kernel: usize, stride: usize| {
        let case = Case::new(op, vec![images()]);
        both(
            case.with("kernel", list(&[kernel; 2]))
                .with("stride", list(&[stride; 2]))
                .with("padding", list(&[kernel / 2; 2])),
        )
    };
    vec![
        windows("max_pool", 3, 2),
        windows("avg_pool", 3, 2),
        windows("avg_pool", 2, 2),
        both(Case::new("adaptive_avg_pool", vec![images()]).with("size", list(&[7, 7]))),
    ]
}

fn resample(scale: Scale) -> Vec<Case> {
    let images = || dense(&[scale.of(32), 32, 128, 128]);
    let resized = |mode: &str| {
        both(
            Case::new("interpolate", vec![images()])
                .with("size", list(&[256, 256]))
                .with("mode", mode),
        )
    };
    let padded = |mode: &str| {
        both(Case::new("pad", vec![images()]).with("pads", list(&[2, 2, 2, 2])).with("mode", mode))
    };
    let grid = dense(&[scale.of(32), 128, 128, 2]).fill(Fill::Unit);
    vec![
        resized("nearest"),
        resized("bilinear"),
        resized("bicubic"),
        padded("reflect"),
        padded("replicate"),
        padded("circular"),
        both(Case::new("grid_sample", vec![images(), grid]).with("mode", "bilinear")),
    ]
}

fn scan(scale: Scale) -> Vec<Case> {
    let rows = scale.of(1 << 13);
    let scan = |op: &str, dim: usize| Case::new(op, vec![dense(&[rows, 4096])]).with("dim", dim);
    vec![
        Case::new("cumsum", vec![dense(&[scale.of(1 << 25)])]).with("dim", 0),
        both(scan("cumsum", 1)),
        scan("cumsum", 0),
        scan("cumprod", 1),
        scan("logcumsumexp", 1),
    ]
}

fn sort(scale: Scale) -> Vec<Case> {
    let (many, rows) = (scale.of(1 << 22), scale.of(1 << 12));
    let top =
        |op: &str, k: usize| Case::new(op, vec![dense(&[rows, 4096])]).with("k", k).with("dim", 1);
    vec![
        Case::new("sort", vec![dense(&[many])]).with("dim", 0).with("descending", false),
        Case::new("sort", vec![dense(&[rows, 4096])]).with("dim", 1).with("descending", false),
        top("topk", 50),
        top("kthvalue", 2048),
        Case::new("unique", vec![uniform(&[many], 1 << 16)]),
    ]
}

/// Training steps.
fn models(scale: Scale) -> Vec<Case> {
    let model = |op: &str, batch: usize, depth: usize| {
        Case::new(op, Vec::new())
            .with("batch", scale.of(batch))
            .with("depth", depth)
            .with("train", true)
            .with("optimizer", "adam")
            .with("norm", true)
    };
    vec![
        model("mlp", 1024, 4).with("inputs", 1024).with("width", 1024),
        model("cnn", 128, 4).with("width", 64).with("size", 32),
        model("transformer", 32, 4).with("heads", 8).with("width", 512).with("length", 256),
        model("lstm", 64, 2).with("inputs", 256).with("width", 256).with("length", 64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_is_asked_at_both_levels() {
        let questions = questions(Scale(1));
        assert_eq!(questions.len(), 2 * cases(Scale(1)).len());
        for pair in questions.chunks(2) {
            assert_eq!(pair[0]["name"], pair[1]["name"]);
            assert_eq!([&pair[0]["level"], &pair[1]["level"]], ["portable", "not_guaranteed"]);
        }
    }

    #[test]
    fn families_follow_each_other_and_have_names_of_their_own() {
        let families = families();
        let mut sorted = families.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), families.len());
    }

    #[test]
    fn small_cases_are_small() {
        for case in cases(Scale(4096)) {
            for input in &case.inputs {
                let elements: usize = input.shape.iter().product();
                assert!(elements <= 7 << 20, "{}", case.title());
            }
        }
    }
}
