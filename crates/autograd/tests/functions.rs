//! All functions: those that are also methods, and the names in their errors.

#[path = "functions/halves.rs"]
mod halves;

use std::collections::BTreeSet;

use samebits_autograd::functional as f;
use samebits_autograd::{DType, Error, Result, Tensor};
use samebits_rng::Generator;
use samebits_tensor_core::ops::{
    ConvParams, GridMode, GridPadding, GridParams, InterpolateMode, PadMode, PoolParams, QrMode,
    ScatterReduceKind,
};

/// Functions that are not methods, with the reason.
const NO_METHODS: &[(&str, &str)] = &[
    (
        "torch.Tensor has no such method: the first argument is no tensor",
        "block_diag broadcast_tensors cartesian_prod cat dstack einsum hstack meshgrid normal_scalar normal_scalar_with pack_sequence pad_sequence rand rand_with randint randint_with \
         randn randn_with randperm randperm_with searchsorted stack tril_indices triu_indices vstack",
    ),
    (
        "a form with a generator: `nn::draw_from` gives one to the method",
        "alpha_dropout_with bernoulli_with dropout_with dropout1d_with dropout2d_with dropout3d_with \
         feature_alpha_dropout_with fractional_samples_with multinomial_with normal_with \
         pca_lowrank_with rand_like_with randint_like_with randn_like_with rrelu_with \
         svd_lowrank_with",
    ),
    (
        "torch.Tensor has no such method: layers and functions of torch.nn.functional",
        "cosine_similarity normalize pairwise_distance adaptive_avg_pool adaptive_avg_pool1d \
         adaptive_avg_pool2d adaptive_avg_pool3d \
         adaptive_max_pool adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d affine_grid \
         alpha_dropout avg_pool avg_pool1d avg_pool2d avg_pool3d batch_norm batch_norm_inference \
         channel_shuffle fold local_response_norm rms_norm rotary_embedding rrelu scaled_dot_product_attention \
         scaled_dot_product_attention_with unfold \
         conv conv1d conv2d conv3d conv_same conv_transpose conv_transpose1d conv_transpose2d \
         conv_transpose3d dropout dropout1d dropout2d dropout3d embedding embedding_bag \
         embedding_renorm embedding_with feature_alpha_dropout fractional_max_pool \
         fractional_max_pool2d fractional_max_pool3d fractional_samples gelu_tanh grid_sample \
         group_norm gru gru_packed instance_norm interpolate interpolate_area layer_norm linear \
         lp_pool lp_pool1d lp_pool2d lp_pool3d lstm lstm_packed max_pool max_pool1d max_pool2d \
         max_pool3d max_unpool max_unpool1d max_unpool2d max_unpool3d pack_padded_sequence pad \
         pad_packed_sequence pixel_shuffle pixel_unshuffle rnn_relu rnn_relu_packed rnn_tanh \
         rnn_tanh_packed unpack_sequence unpad_sequence",
    ),
    (
        "torch.Tensor has no such method: losses",
        "binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy \
         cross_entropy_probabilities cross_entropy_with ctc_loss gaussian_nll_loss \
         hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss \
         multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss \
         nll_loss_with poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss \
         triplet_margin_with_distance_loss",
    ),
    ("torch.Tensor has no such method: functions of torch", "normal"),
];

/// Returns the functions that `functional` exports.
fn functions() -> BTreeSet<String> {
    let source = include_str!("../src/functional.rs");
    let exports = source.split("\npub use ").skip(1).map(|rest| rest.split(';').next().unwrap());
    let mut names = BTreeSet::new();
    for export in exports {
        let (_, list) = export.split_once("::").unwrap();
        for name in list.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            // Types begin with a capital letter.
            if name.starts_with(|c: char| c.is_ascii_lowercase()) {
                names.insert(name.to_owned());
            }
        }
    }
    names
}

/// Returns the methods that are functions of the same name.
fn methods() -> BTreeSet<String> {
    let source = include_str!("../src/functional/methods.rs");
    let lines = source.lines().map(|line| line.trim_start().trim_start_matches("pub fn "));
    let name = |line: &str| {
        let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
        line[end..].starts_with(['(', ',']).then(|| line[..end].to_owned())
    };
    let functions = functions();
    lines.filter_map(name).filter(|name| functions.contains(name)).collect()
}

#[test]
fn every_function_is_a_method_or_says_why_not() {
    let (functions, methods) = (functions(), methods());
    assert!(functions.len() > 200 && methods.len() > 120, "{functions:?} {methods:?}");
    let listed: Vec<&str> = NO_METHODS.iter().flat_map(|(_, names)| names.split(' ')).collect();
    let others: BTreeSet<String> = listed.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(listed.len(), others.len(), "listed twice");
    let known = &methods | &others;
    let neither: Vec<_> = functions.difference(&known).collect();
    assert!(neither.is_empty(), "make methods of them, or say why not: {neither:?}");
    let both: Vec<_> = methods.intersection(&others).collect();
    assert!(both.is_empty(), "these are methods: {both:?}");
    let gone: Vec<_> = others.difference(&functions).collect();
    assert!(gone.is_empty(), "there is no such function: {gone:?}");
}

/// Arguments that hardly any function accepts.
struct Hostile {
    x: Tensor,
    y: Tensor,
    index: Tensor,
    dim: i64,
    sizes: Vec<usize>,
    generator: Generator,
    /// No probability.
    p: f64,
    negative: f64,
    zero: usize,
    /// More than tensors have.
    many: usize,
    /// More than fits into memory.
    most: usize,
    /// Outside of all matrices.
    far: i64,
}

fn hostile() -> Result<Vec<Hostile>> {
    let of = |x: Tensor, y: Tensor, index: Tensor, dim: i64, sizes: &[usize]| Hostile {
        x,
        y,
        index,
        dim,
        sizes: sizes.to_vec(),
        generator: Generator::new(0),
        p: 1.5,
        negative: -1.0,
        zero: 0,
        many: 99,
        most: usize::MAX,
        far: i64::MIN,
    };
    let zeros = |shape: &[usize], dtype| Tensor::zeros(shape, dtype);
    let far = Tensor::from_slice(&[99i64, -99], &[2])?;
    Ok(vec![
        of(zeros(&[2, 3], DType::Bool)?, zeros(&[4, 5], DType::Bool)?, far.clone(), 9, &[7, 7]),
        of(zeros(&[2, 3], DType::I64)?, zeros(&[4, 5], DType::F32)?, far.clone(), -9, &[0]),
        of(zeros(&[2, 3], DType::F32)?, zeros(&[4, 5], DType::F64)?, far.clone(), 0, &[]),
        of(zeros(&[2, 3, 4, 5], DType::F32)?, zeros(&[7], DType::F32)?, far, 1, &[usize::MAX, 2]),
        of(
            Tensor::scalar(1.5f32),
            zeros(&[2, 0], DType::F32)?,
            zeros(&[1], DType::F32)?,
            3,
            &[1 << 40, 1 << 40],
        ),
        of(zeros(&[0, 3], DType::F64)?, Tensor::scalar(1i64), Tensor::scalar(5i64), -2, &[3, 0, 1]),
    ])
}

type Call = fn(&mut Hostile) -> Option<Error>;

macro_rules! calls {
    (|$h:ident| $($name:ident($($argument:expr),*);)*) => {
        vec![$((
            stringify!($name),
            (|$h: &mut Hostile| f::$name($($argument),*).err()) as Call,
        )),*]
    };
}

fn calls() -> Vec<(&'static str, Call)> {
    const CORNERS: bool = true;
    calls! { |h|
        abs(&h.x);
        adaptive_avg_pool(&h.x, &h.sizes);
        adaptive_avg_pool1d(&h.x, &h.sizes);
        adaptive_avg_pool2d(&h.x, &h.sizes);
        adaptive_avg_pool3d(&h.x, &h.sizes);
        adaptive_max_pool(&h.x, &h.sizes);
        adaptive_max_pool1d(&h.x, &h.sizes);
        adaptive_max_pool2d(&h.x, &h.sizes);
        adaptive_max_pool3d(&h.x, &h.sizes);
        add(&h.x, &h.y);
        addcdiv(&h.x, &h.y, &h.x, 2.0);
        addcmul(&h.x, &h.y, &h.x, 2.0);
        addmm(&h.x, &h.y, &h.x, 0.5, 2.0);
        affine(&h.x, 2.0, 1.0);
        affine_grid(&h.x, &h.sizes, CORNERS);
        all(&h.x, h.dim, false);
        allclose(&h.x, &h.y, 1e-5, 1e-8, false);
        alpha_dropout(&h.x, h.p);
        alpha_dropout_with(&h.x, h.p, &mut h.generator);
        amax(&h.x, h.dim, false);
        amin(&h.x, h.dim, false);
        any(&h.x, h.dim, false);
        argmax(&h.x, h.dim, false);
        argmin(&h.x, h.dim, false);
        argsort(&h.x, h.dim, false);
        avg_pool(&h.x, &pool(h), true, Some(h.zero as i64));
        avg_pool1d(&h.x, &pool(h), true, Some(h.zero as i64));
        avg_pool2d(&h.x, &pool(h), true, Some(h.zero as i64));
        avg_pool3d(&h.x, &pool(h), true, Some(h.zero as i64));
        baddbmm(&h.x, &h.y, &h.x, 0.5, 2.0);
        batch_norm(&h.x, Some(&h.y), None, 1e-5);
        batch_norm_inference(&h.x, Some(&h.y), None, &h.y, &h.y, 1e-5);
        bernoulli(&h.x.affine(1.0, 2.0 * h.p - 1.0).unwrap_or_else(|_| h.y.clone()));
        bernoulli_with(&h.x.affine(1.0, 2.0 * h.p - 1.0).unwrap_or_else(|_| h.y.clone()), &mut h.generator);
        binary_cross_entropy(&h.x, &h.y, None, f::Reduction::Mean);
        binary_cross_entropy_with_logits(&h.x, &h.y, None, Some(&h.y), f::Reduction::Mean);
        bincount(&h.index, Some(&h.y), 3);
        bincount_n(&h.index, Some(&h.y), h.most);
        block_diag(&[h.x.clone(), h.y.clone()]);
        bmm(&h.x, &h.y);
        broadcast_tensors(&[h.x.clone(), h.y.clone()]);
        bucketize(&h.x, &h.y, false);
        cartesian_prod(&[h.x.clone(), h.y.clone()]);
        cat(&[h.x.clone(), h.y.clone()], h.dim);
        cdist(&h.x, &h.y, 2.0);
        ceil(&h.x);
        celu(&h.x, h.zero as f64);
        channel_shuffle(&h.x, h.many);
        chunk(&h.x, h.zero, h.dim);
        clamp(&h.x, Some(0.0), None);
        clamp_max(&h.x, 0.0);
        clamp_min(&h.x, 0.0);
        conv(&h.x, &h.y, None, &windows(h));
        conv1d(&h.x, &h.y, None, &windows(h));
        conv2d(&h.x, &h.y, None, &windows(h));
        conv3d(&h.x, &h.y, None, &windows(h));
        conv_same(&h.x, &h.y, None, &h.sizes, 1);
        conv_transpose(&h.x, &h.y, None, &windows(h), &h.sizes);
        conv_transpose1d(&h.x, &h.y, None, &windows(h), &h.sizes);
        conv_transpose2d(&h.x, &h.y, None, &windows(h), &h.sizes);
        conv_transpose3d(&h.x, &h.y, None, &windows(h), &h.sizes);
        cos(&h.x);
        cosine_embedding_loss(&h.x, &h.y, &h.index, 0.0, f::Reduction::Mean);
        cosine_similarity(&h.x, &h.y, h.dim, 1e-8);
        count_nonzero(&h.x, h.dim);
        cross_entropy(&h.x, &h.y);
        cross_entropy_probabilities(&h.x, &h.y, &f::ClassLoss::default());
        cross_entropy_with(&h.x, &h.y, &f::ClassLoss::default());
        ctc_loss(&h.x, &h.y, &h.sizes, &h.sizes, f::CtcOptions::default());
        cummax(&h.x, h.dim);
        cummin(&h.x, h.dim);
        cumprod(&h.x, h.dim);
        cumsum(&h.x, h.dim);
        diag(&h.x, h.far);
        diag_embed(&h.x, h.far, h.dim, 1);
        diagonal(&h.x, h.far, h.dim, 1);
        diff(&h.x, 2, h.dim);
        div(&h.x, &h.y);
        dot(&h.x, &h.y);
        dropout(&h.x, h.p);
        dropout1d(&h.x, h.p);
        dropout1d_with(&h.x, h.p, &mut h.generator);
        dropout2d(&h.x, h.p);
        dropout2d_with(&h.x, h.p, &mut h.generator);
        dropout3d(&h.x, h.p);
        dropout3d_with(&h.x, h.p, &mut h.generator);
        dropout_with(&h.x, h.p, &mut h.generator);
        dstack(&[h.x.clone(), h.y.clone()]);
        einsum("ij,ji->i", &[&h.x, &h.y]);
        elu(&h.x, 1.0);
        embedding(&h.x, &h.index);
        embedding_bag(&h.x, &h.index, Some(&h.index), None, f::BagOptions::default());
        embedding_renorm(&h.x, &h.index, h.negative, 2.0);
        embedding_with(&h.x, &h.index, Some(h.many - 2), true);
        eq(&h.x, &h.y);
        equal(&h.x, &h.y);
        erf(&h.x);
        exp(&h.x);
        exp2(&h.x);
        expand(&h.x, &h.sizes);
        expand_as(&h.x, &h.y);
        expm1(&h.x);
        feature_alpha_dropout(&h.x, h.p);
        feature_alpha_dropout_with(&h.x, h.p, &mut h.generator);
        flatten(&h.x, h.dim, 0);
        flip(&h.x, h.dim);
        floor(&h.x);
        floor_divide(&h.x, &h.y);
        fold(&h.x, [h.most, 3], f::Windows::new([2, 2]));
        frac(&h.x);
        fractional_max_pool(&h.x, &h.sizes, &h.sizes, Some(&h.y));
        fractional_max_pool2d(&h.x, &h.sizes, &h.sizes, Some(&h.y));
        fractional_max_pool3d(&h.x, &h.sizes, &h.sizes, Some(&h.y));
        fractional_samples(&h.x, h.many);
        fractional_samples_with(&h.x, h.many, &mut h.generator);
        gather(&h.x, h.dim, &h.index);
        gaussian_nll_loss(&h.x, &h.y, &h.index, true, 1e-6, f::Reduction::Mean);
        ge(&h.x, &h.y);
        gelu(&h.x);
        gelu_tanh(&h.x);
        glu(&h.x, h.dim);
        grid_sample(&h.x, &h.y, GridParams {
            mode: GridMode::Linear,
            padding: GridPadding::Zeros,
            align_corners: CORNERS
        });
        group_norm(&h.x, 2, Some(&h.y), None, 1e-5);
        gru(&h.x, &h.y, &weights(h), f::Stack::default());
        gru_packed(&packed(h), &h.y, &weights(h), f::Stack::default());
        gt(&h.x, &h.y);
        hardshrink(&h.x, 0.5);
        hardsigmoid(&h.x);
        hardswish(&h.x);
        hardtanh(&h.x, -1.0, 1.0);
        hinge_embedding_loss(&h.x, &h.y, 1.0, f::Reduction::Mean);
        histc(&h.x, h.zero, h.p, 1.0);
        hstack(&[h.x.clone(), h.y.clone()]);
        huber_loss(&h.x, &h.y, h.negative, f::Reduction::Mean);
        i(&h.x, (h.many as i64 - 2, h.dim));
        index(&h.x, &[h.index.clone(), h.y.clone()]);
        index_add(&h.x, h.dim, &h.index, &h.y, 1.0);
        index_copy(&h.x, h.dim, &h.index, &h.y);
        index_fill(&h.x, h.dim, &h.index, 1.0);
        index_put(&h.x, std::slice::from_ref(&h.index), &h.y, true);
        index_reduce(&h.x, h.dim, &h.index, &h.y, ScatterReduceKind::Mean, true);
        index_select(&h.x, h.dim, &h.index);
        instance_norm(&h.x, Some(&h.y), None, 1e-5);
        interpolate(&h.x, f::Resize::Size(&h.sizes), InterpolateMode::Nearest);
        interpolate_area(&h.x, f::Resize::Size(&h.sizes));
        isclose(&h.x, &h.y, 1e-5, 1e-8, false);
        isin(&h.x, &h.y);
        kl_div(&h.x, &h.y, f::BatchReduction::BatchMean, false);
        kron(&h.x, &h.y);
        kthvalue(&h.x, h.many, h.dim, false);
        l1_loss(&h.x, &h.y, f::Reduction::Mean);
        layer_norm(&h.x, &h.sizes, Some(&h.y), None, 1e-5);
        le(&h.x, &h.y);
        leaky_relu(&h.x, 0.1);
        lerp(&h.x, &h.y, 0.5);
        linear(&h.x, &h.y, Some(&h.y));
        log(&h.x);
        log10(&h.x);
        log1p(&h.x);
        log2(&h.x);
        log_sigmoid(&h.x);
        log_softmax(&h.x, h.dim);
        logaddexp(&h.x, &h.y);
        logcumsumexp(&h.x, h.dim);
        logical_and(&h.x, &h.y);
        logical_or(&h.x, &h.y);
        logical_xor(&h.x, &h.y);
        logit(&h.x, Some(0.5 * h.p));
        logsumexp(&h.x, h.dim, false);
        lp_pool(&h.x, 2.0, &pool(h));
        lp_pool1d(&h.x, 2.0, &pool(h));
        lp_pool2d(&h.x, 2.0, &pool(h));
        lp_pool3d(&h.x, 2.0, &pool(h));
        lstm(&h.x, &h.y, &h.y, &weights(h), f::Stack::default());
        lstm_packed(&packed(h), &h.y, &h.y, &weights(h), f::Stack::default());
        lt(&h.x, &h.y);
        margin_ranking_loss(&h.x, &h.y, &h.index, 0.0, f::Reduction::Mean);
        masked_fill(&h.x, &h.y, 1.0);
        masked_scatter(&h.x, &h.y, &h.x);
        masked_select(&h.x, &h.y);
        matmul(&h.x, &h.y);
        max(&h.x, h.dim, false);
        max_pool(&h.x, &pool(h));
        max_pool1d(&h.x, &pool(h));
        max_pool2d(&h.x, &pool(h));
        max_pool3d(&h.x, &pool(h));
        max_unpool(&h.x, &h.index, &pool(h), Some(&h.sizes));
        max_unpool1d(&h.x, &h.index, &pool(h), Some(&h.sizes));
        max_unpool2d(&h.x, &h.index, &pool(h), Some(&h.sizes));
        max_unpool3d(&h.x, &h.index, &pool(h), Some(&h.sizes));
        maximum(&h.x, &h.y);
        mean(&h.x, h.dim, false);
        median(&h.x);
        median_dim(&h.x, h.dim, false);
        meshgrid(&[h.x.clone(), h.y.clone()]);
        min(&h.x, h.dim, false);
        minimum(&h.x, &h.y);
        mish(&h.x);
        mm(&h.x, &h.y);
        movedim(&h.x, h.dim, 0);
        mse_loss(&h.x, &h.y, f::Reduction::Mean);
        mul(&h.x, &h.y);
        multi_margin_loss(&h.x, &h.index, 1, 1.0, Some(&h.y), f::Reduction::Mean);
        multilabel_margin_loss(&h.x, &h.index, f::Reduction::Mean);
        multilabel_soft_margin_loss(&h.x, &h.y, None, f::Reduction::Mean);
        multinomial(&h.x, h.many, false);
        multinomial_with(&h.x, h.many, false, &mut h.generator);
        mv(&h.x, &h.y);
        nan_to_num(&h.x, 0.0, None, None);
        nanmean(&h.x, h.dim, false);
        nanmedian(&h.x);
        nanmedian_dim(&h.x, h.dim, false);
        nansum(&h.x, h.dim, false);
        narrow(&h.x, h.dim, h.most - 2, h.zero);
        ne(&h.x, &h.y);
        neg(&h.x);
        nll_loss(&h.x, &h.y);
        nll_loss_with(&h.x, &h.y, &f::ClassLoss::default());
        norm(&h.x, h.negative, h.dim, false);
        normal(&h.x, &h.y);
        normal_scalar(0.0, -1.0, &h.sizes);
        normal_scalar_with(0.0, -1.0, &h.sizes, &mut h.generator);
        normal_with(&h.x, &h.y, &mut h.generator);
        normalize(&h.x, 2.0, h.dim, 1e-12);
        one_hot(&h.index, 3);
        outer(&h.x, &h.y);
        pack_padded_sequence(&h.x, &h.sizes, true, true);
        pack_sequence(&[h.x.clone(), h.y.clone()], true);
        pad(&h.x, &vec![1; h.many], PadMode::Reflect, 0.0);
        pad_sequence(&[h.x.clone(), h.y.clone()], true, 0.0, f::PaddingSide::Left);
        pairwise_distance(&h.x, &h.y, 2.0, 1e-6, false);
        pca_lowrank(&h.x, Some(h.many), true, 1);
        pca_lowrank_with(&h.x, Some(h.many), true, 1, &mut h.generator);
        permute(&h.x, h.dim);
        pixel_shuffle(&h.x, h.many);
        pixel_unshuffle(&h.x, h.many);
        poisson_nll_loss(&h.x, &h.y, true, true, 1e-8, f::Reduction::Mean);
        pow(&h.x, &h.y);
        pow_scalar(&h.x, 0.5);
        prelu(&h.x, &h.y);
        prod(&h.x, h.dim, false);
        put(&h.x, &h.index, &h.y, true);
        qr(&h.x, QrMode::Reduced);
        quantile(&h.x, 0.5, h.dim, false);
        rand(&h.sizes);
        rand_like(&h.x);
        rand_like_with(&h.x, &mut h.generator);
        rand_with(&h.sizes, &mut h.generator);
        randint(5, 3, &h.sizes);
        randint_like(&h.x, 0, h.negative as i64);
        randint_like_with(&h.x, 0, h.negative as i64, &mut h.generator);
        randint_with(0, 3, &h.sizes, &mut h.generator);
        randn(&h.sizes);
        randn_like(&h.x);
        randn_like_with(&h.x, &mut h.generator);
        randn_with(&h.sizes, &mut h.generator);
        randperm(usize::MAX - h.sizes.len());
        randperm_with(usize::MAX, &mut h.generator);
        reciprocal(&h.x);
        relu(&h.x);
        relu6(&h.x);
        remainder(&h.x, &h.y);
        repeat(&h.x, &h.sizes);
        repeat_interleave(&h.x, &h.index, h.dim);
        repeat_interleave_n(&h.x, h.most, h.dim);
        repeat_interleave_to(&h.x, &h.index, h.dim, total(&h.index));
        reshape(&h.x, h.sizes.as_slice());
        rms_norm(&h.x, &h.sizes, Some(&h.y), None);
        local_response_norm(&h.x, h.zero, 1.0, 0.5, 1.0);
        cov(&h.x, 1, Some(&h.y), None);
        corrcoef(&h.x);
        rnn_relu(&h.x, &h.y, &weights(h), f::Stack::default());
        rnn_relu_packed(&packed(h), &h.y, &weights(h), f::Stack::default());
        rnn_tanh(&h.x, &h.y, &weights(h), f::Stack::default());
        rnn_tanh_packed(&packed(h), &h.y, &weights(h), f::Stack::default());
        roll(&h.x, &[1], h.dim);
        rot90(&h.x, 1, h.dim, 0);
        rotary_embedding(&h.x, &h.y, &h.y, false);
        round(&h.x);
        rrelu(&h.x, 0.5, h.negative);
        rrelu_with(&h.x, 0.5, h.negative, &mut h.generator);
        rsqrt(&h.x);
        scaled_dot_product_attention(&h.x, &h.y, &h.x, Some(&h.index), 0.0, false, None);
        scaled_dot_product_attention_with(&h.x, &h.y, &h.x, &f::AttentionOptions::default());
        scatter(&h.x, h.dim, &h.index, &h.y);
        scatter_add(&h.x, h.dim, &h.index, &h.y);
        scatter_reduce(&h.x, h.dim, &h.index, &h.y, ScatterReduceKind::Prod, true);
        scatter_value(&h.x, h.dim, &h.index, 1.0);
        searchsorted(&h.x, &h.y, false);
        select(&h.x, h.dim, h.many as i64 - 2);
        selu(&h.x);
        sigmoid(&h.x);
        silu(&h.x);
        sin(&h.x);
        smooth_l1_loss(&h.x, &h.y, h.negative, f::Reduction::Mean);
        soft_margin_loss(&h.x, &h.y, f::Reduction::Mean);
        softmax(&h.x, h.dim);
        softmin(&h.x, h.dim);
        softplus(&h.x, 1.0, 20.0);
        softshrink(&h.x, h.negative);
        softsign(&h.x);
        sort(&h.x, h.dim, false);
        split(&h.x, &h.sizes, h.dim);
        sqrt(&h.x);
        square(&h.x);
        squeeze(&h.x, h.dim);
        stack(&[h.x.clone(), h.y.clone()], h.dim);
        std(&h.x, h.dim, 1.0, false);
        sub(&h.x, &h.y);
        sum(&h.x, h.dim, false);
        svd(&h.x);
        svd_lowrank(&h.x, h.many, 1, None);
        svd_lowrank_with(&h.x, h.many, 1, None, &mut h.generator);
        t(&h.x);
        take(&h.x, &h.index);
        take_along_dim(&h.x, &h.index, h.dim);
        tanh(&h.x);
        tanhshrink(&h.x);
        tensor_split(&h.x, &[h.many - 2, 1], h.dim);
        tensordot(&h.x, &h.y, h.dim, 0);
        threshold(&h.x, 0.5, 1.0);
        tile(&h.x, &h.sizes);
        topk(&h.x, h.many, h.dim, true);
        trace(&h.x);
        transpose(&h.x, h.dim, h.many as i64 - 2);
        tril(&h.x, 0);
        tril_indices(usize::MAX, 2, h.dim);
        triplet_margin_loss(&h.x, &h.y, &h.index, 1.0, 2.0, 1e-6, true, f::Reduction::Mean);
        triplet_margin_with_distance_loss(&h.x, &h.y, &h.index, |a, b| f::pairwise_distance(a, b, 2.0, 1e-6, false), 1.0, true, f::Reduction::Mean);
        triu(&h.x, 0);
        triu_indices(1 << 31, 1 << 31, h.dim);
        trunc(&h.x);
        unbind(&h.x, h.dim);
        unflatten(&h.x, h.dim, h.sizes.as_slice());
        unfold(&h.x, f::Windows::new([h.most, 2]));
        unique_consecutive_dim(&h.x, h.dim);
        unique_dim(&h.x, h.dim);
        unpad_sequence(&h.x, &h.sizes, true);
        unsqueeze(&h.x, h.dim);
        var(&h.x, h.dim, 1.0, false);
        var_mean(&h.x, h.dim, 1.0, false);
        vstack(&[h.x.clone(), h.y.clone()]);
        where_(&h.y, &h.x, &h.x);
        windows(&h.x, h.dim, h.many, h.zero);
    }
}

/// Functions that reject nothing here: they accept every tensor.
const UNREFUSED: &str = "full_like isfinite isinf isnan logical_not nonzero ones_like pad_packed_sequence sign \
                         to_dtype unique unique_consecutive unpack_sequence zeros_like";

fn pool(h: &Hostile) -> PoolParams {
    PoolParams::square(h.x.rank().clamp(3, 5) - 2, h.many)
}

fn windows(h: &Hostile) -> ConvParams {
    ConvParams::padded(h.x.rank().clamp(3, 5) - 2, 1)
}

fn weights(h: &Hostile) -> Vec<f::Weights> {
    let (weight_ih, weight_hh) = (h.x.clone(), h.y.clone());
    vec![f::Weights { weight_ih, weight_hh, bias_ih: None, bias_hh: None, weight_hr: None }]
}

/// Returns two sequences of floats, without hostile values.
/// Returns the sum of integers, or a number that is none.
fn total(x: &Tensor) -> usize {
    let all = x.to_vec::<i64>().unwrap_or_default();
    all.into_iter().fold(0, i64::wrapping_add) as usize
}

fn packed(h: &Hostile) -> f::PackedSequence {
    let dtype = if h.x.dtype().is_half() { h.x.dtype() } else { DType::F32 };
    let x = Tensor::zeros(&[3, 2, 4], dtype).unwrap();
    f::pack_padded_sequence(&x, &[3, 1], false, true).unwrap()
}

#[test]
fn every_error_starts_with_the_name_of_the_function_that_was_called() {
    samebits_tensor_core::random::manual_seed(0);
    let calls = calls();
    let called: BTreeSet<String> = calls.iter().map(|(name, _)| (*name).to_owned()).collect();
    let unrefused: BTreeSet<String> = UNREFUSED.split_whitespace().map(str::to_owned).collect();
    assert_eq!(&called | &unrefused, functions());
    let mut silent = Vec::new();
    let mut foreign = Vec::new();
    for (name, call) in calls {
        let errors: Vec<String> =
            hostile().unwrap().iter_mut().filter_map(call).map(|error| error.to_string()).collect();
        if errors.is_empty() {
            silent.push(name);
        }
        let own = |error: &&String| {
            error.strip_prefix(name).is_some_and(|rest| rest.starts_with([':', ' ']))
        };
        foreign.extend(errors.iter().filter(|error| !own(error)).cloned().map(|e| (name, e)));
    }
    assert!(silent.is_empty(), "nothing was refused: {silent:?}");
    assert!(foreign.is_empty(), "errors of other names: {foreign:#?}");
}

#[test]
fn packed_sequences_say_which_sequence_a_place_holds() {
    let x = Tensor::zeros(&[3, 3, 1], DType::F32).unwrap();
    let packed = f::pack_padded_sequence(&x, &[1, 3, 2], true, false).unwrap();
    assert_eq!(packed.sorted_indices(), [1, 2, 0]);
    assert_eq!(packed.lengths(), [1, 3, 2]);
    assert_eq!(packed.batch_sizes(), [3, 2, 1]);
}

#[test]
fn parts_by_their_ends() {
    let x = Tensor::arange(5).unwrap();
    let parts = x.tensor_split(&[1, 1, 3], 0).unwrap();
    let parts: Vec<Vec<_>> = parts.iter().map(|part| part.to_vec::<i64>().unwrap()).collect();
    assert_eq!(parts, [vec![0], vec![], vec![1, 2], vec![3, 4]]);
    for ends in [&[3, 1][..], &[6]] {
        let error = x.tensor_split(ends, 0).unwrap_err().to_string();
        assert_eq!(error, format!("tensor_split: expected ascending ends up to 5, got {ends:?}"));
    }
}
