//! Arguments as users of PyTorch write them.

use samebits_autograd::functional::{ClassLoss, Reduction};
use samebits_autograd::nn::{
    self, AlphaDropout, Attend, CrossEntropyLoss, Dropout, Dropout1d, Dropout2d, Dropout3d,
    FeatureAlphaDropout, Flatten, GRU, Layer, MultiheadAttention, RReLU, TransformerEncoderLayer,
};
use samebits_autograd::{Error, Tensor, functional, sequential};
use samebits_rng::Generator;
use samebits_tensor_core::{DType, random};

fn bits(x: &Tensor) -> Vec<u8> {
    x.to_bytes().unwrap()
}

#[test]
fn nothing_to_draw_needs_no_seed() {
    let x = [-0.0f32, 0.0, 1.5, -2.0, f32::INFINITY, f32::NAN, 1e-40, 1e30];
    let x = move || Tensor::from_slice(&x, &[1, 2, 2, 2]).unwrap();
    let layers: [(&str, Box<dyn Layer + Send>); 6] = [
        ("dropout", Box::new(Dropout::new(0.0))),
        ("dropout1d", Box::new(sequential![Flatten::new(2, 3), Dropout1d::new(0.0)])),
        ("dropout2d", Box::new(Dropout2d::new(0.0))),
        ("dropout3d", Box::new(Dropout3d::new(0.0))),
        ("alpha_dropout", Box::new(AlphaDropout::new(0.0))),
        ("feature_alpha_dropout", Box::new(FeatureAlphaDropout::new(0.0))),
    ];
    // An unseeded thread, although another thread was seeded.
    random::manual_seed(0);
    let unseeded = move || {
        for (name, layer) in layers {
            let x = x().set_requires_grad(true).unwrap();
            let y = nn::train(|| layer.forward(&x)).unwrap();
            assert_eq!(bits(&y), bits(&x), "{name}");
            let grad = y.sum_all().unwrap().backward().unwrap();
            assert_eq!(grad.of(&x).unwrap().to_vec::<f32>().unwrap(), [1.0; 8], "{name}");
        }
        nn::train(|| {
            let x = x();
            assert_eq!(bits(&RReLU::new(0.25, 0.25).forward(&x)?), bits(&x.leaky_relu(0.25)?));
            let empty = Tensor::zeros(&[0, 3, 2, 2], DType::F32)?;
            assert_eq!(Dropout::new(0.5).forward(&empty)?.shape(), empty.shape());
            assert_eq!(Dropout2d::new(0.5).forward(&empty)?.shape(), empty.shape());
            assert_eq!(AlphaDropout::new(0.5).forward(&empty)?.shape(), empty.shape());
            assert_eq!(RReLU::default().forward(&empty)?.shape(), empty.shape());
            let rows = x.reshape([2, 2, 2])?;
            functional::scaled_dot_product_attention(&rows, &rows, &rows, None, 0.0, false, None)?;
            let mut generator = Generator::new(0);
            let rnn = GRU::options(2, 3).dropout(0.5).init_with(&mut generator)?;
            rnn.forward(&rows, None)?;
            let encoder = TransformerEncoderLayer::options(2, 1).dropout(0.0);
            encoder.init_with(&mut generator)?.forward_with(&rows, Attend::default())?;
            // Errors are those of any other probability, and calls that draw still fail.
            let error = Dropout::new(0.0).forward(&Tensor::arange(3)?).unwrap_err().to_string();
            assert!(error.starts_with("dropout: "), "{error}");
            let error = Dropout1d::new(0.0).forward(&x).unwrap_err().to_string();
            assert!(error.starts_with("dropout1d: "), "{error}");
            let error = Dropout::new(1e-300).forward(&x).unwrap_err();
            assert!(matches!(error, Error::ForeignThread { op: "dropout" }), "{error}");
            assert!(
                RReLU::default().forward(&x).is_err()
                    && Dropout::new(f64::NAN).forward(&x).is_err()
            );
            Ok::<_, Error>(())
        })
        .unwrap();
    };
    std::thread::spawn(unseeded).join().unwrap();
    // A given generator does not advance, either.
    let (mut generator, x) = (Generator::new(3), Tensor::ones(&[2, 3, 4], DType::F32).unwrap());
    functional::dropout_with(&x, 0.0, &mut generator).unwrap();
    functional::dropout1d_with(&x, -0.0, &mut generator).unwrap();
    functional::alpha_dropout_with(&x, 0.0, &mut generator).unwrap();
    functional::feature_alpha_dropout_with(&x, 0.0, &mut generator).unwrap();
    functional::rrelu_with(&x, 0.25, 0.25, &mut generator).unwrap();
    assert_eq!(generator, Generator::new(3));
}

/// The message of an option that makes no sense begins with the name of the operation and has the number.
#[test]
fn options_that_make_no_sense_are_refused() {
    samebits_cpu_kernels::install();
    random::manual_seed(0);
    let x = || Tensor::ones(&[2, 4, 3], DType::F32).unwrap();
    let rows = || Tensor::ones(&[2, 3], DType::F32).unwrap();
    type Call = fn(f64, &dyn Fn() -> Tensor) -> Result<(), Error>;
    let probabilities: [(&str, Call); 9] = [
        ("MultiheadAttention: ", |p, _| {
            MultiheadAttention::options(4, 2).dropout(p).init().map(drop)
        }),
        ("MultiheadAttention: ", |p, _| {
            TransformerEncoderLayer::options(4, 2).dropout(p).init().map(drop)
        }),
        ("GRU: ", |p, _| GRU::options(2, 3).num_layers(2).dropout(p).init().map(drop)),
        ("dropout: ", |p, x| nn::train(|| Dropout::new(p).forward(&x())).map(drop)),
        ("dropout1d: ", |p, x| nn::train(|| Dropout1d::new(p).forward(&x())).map(drop)),
        ("alpha_dropout: ", |p, x| nn::train(|| AlphaDropout::new(p).forward(&x())).map(drop)),
        ("scaled_dot_product_attention: ", |p, x| {
            functional::scaled_dot_product_attention(&x(), &x(), &x(), None, p, false, None)
                .map(drop)
        }),
        ("cross_entropy", |p, _| {
            let options = ClassLoss { label_smoothing: p, ..ClassLoss::default() };
            let logits = Tensor::ones(&[2, 3], DType::F32)?;
            functional::cross_entropy_with(&logits, &ints(&[0, 1]), &options).map(drop)
        }),
        ("batch_norm: momentum ", |p, x| {
            let layer = nn::BatchNorm1d::options(4).momentum(p).init()?;
            nn::train(|| layer.forward(&x())).map(drop)
        }),
    ];
    for (start, call) in probabilities {
        call(0.5, &x).unwrap_or_else(|error| panic!("{start}{error}"));
        for p in [-0.1, 1.5, f64::NAN, f64::NEG_INFINITY] {
            let Err(error) = call(p, &x) else { panic!("{start}{p} is no error") };
            let error = error.to_string();
            let start = start.trim_end_matches(": ");
            assert!(error.contains(start) && error.contains(&p.to_string()), "{start}: {error}");
        }
    }
    let epsilons: [(&str, Call); 8] = [
        ("layer_norm: ", |eps, x| {
            nn::LayerNorm::options(3).eps(eps).init()?.forward(&x()).map(drop)
        }),
        ("RMSNorm: ", |eps, x| nn::RMSNorm::options(3).eps(eps).init()?.forward(&x()).map(drop)),
        ("group_norm: ", |eps, x| functional::group_norm(&x(), 2, None, None, eps).map(drop)),
        ("instance_norm: ", |eps, x| functional::instance_norm(&x(), None, None, eps).map(drop)),
        ("batch_norm: ", |eps, x| {
            let layer = nn::BatchNorm1d::options(4).eps(eps).init()?;
            nn::train(|| layer.forward(&x())).map(drop)
        }),
        ("batch_norm_inference: ", |eps, x| {
            nn::BatchNorm1d::options(4).eps(eps).init()?.forward(&x()).map(drop)
        }),
        ("normalize: ", |eps, x| functional::normalize(&x(), 2.0, 1, eps).map(drop)),
        ("cosine_similarity: ", |eps, x| {
            functional::cosine_similarity(&x(), &x(), 1, eps).map(drop)
        }),
    ];
    for (start, call) in epsilons {
        for eps in [0.0, 1e-5] {
            call(eps, &x).unwrap_or_else(|error| panic!("{start}{error}"));
        }
        for eps in [-1e-5, f64::NAN, f64::NEG_INFINITY] {
            let Err(error) = call(eps, &x) else { panic!("{start}{eps} is no error") };
            let expected = format!("eps should be at least 0, got {eps}");
            assert!(error.to_string().ends_with(&expected), "{start}{error}");
            assert!(error.to_string().starts_with(start), "{start}{error}");
        }
    }
    for groups in [0, 3] {
        assert!(functional::group_norm(&x(), groups, None, None, 1e-5).is_err());
        assert!(nn::GroupNorm::options(groups, 4).init().is_err());
    }
    assert!(functional::batch_norm(&rows(), None, None, 0.0).is_ok());
}

fn ints(values: &[i64]) -> Tensor {
    Tensor::from_slice(values, &[values.len()]).unwrap()
}

fn numbers(x: &Tensor) -> Vec<f64> {
    x.to_vec().unwrap()
}

/// Returns the gradient of `Σ y · (1, 2, 3, ..)` with respect to `x`.
fn counted(y: &Tensor, x: &Tensor) -> Vec<f64> {
    let factors = Tensor::arange(y.numel()).unwrap().to_dtype(DType::F64).unwrap();
    let factors = factors.affine(1.0, 1.0).unwrap().reshape(y.shape()).unwrap();
    let loss = y.mul(&factors).unwrap().sum_all().unwrap();
    numbers(loss.backward().unwrap().of(x).unwrap())
}

/// Returns the positions in `x` that `index` reads, in order: an oracle without tensor operations.
/// `None` takes a whole dimension.
fn found(shape: &[usize], given: &[Option<Vec<i64>>]) -> Vec<usize> {
    let count = given.iter().flatten().map(Vec::len).max().unwrap();
    let indexed: Vec<usize> = (0..given.len()).filter(|&dim| given[dim].is_some()).collect();
    let side_by_side = indexed.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let whole: Vec<usize> = (0..shape.len()).filter(|dim| !indexed.contains(dim)).collect();
    // The sizes of the result, with the indices as dimension `shape.len()`.
    let mut dims = whole;
    let at = if side_by_side { indexed[0] } else { 0 };
    dims.insert(at, shape.len());
    let size = |dim: usize| shape.get(dim).copied().unwrap_or(count);
    let mut places = Vec::new();
    for flat in 0..dims.iter().map(|&dim| size(dim)).product() {
        let (mut rest, mut position) = (flat, vec![0; shape.len() + 1]);
        for &dim in dims.iter().rev() {
            position[dim] = rest % size(dim);
            rest /= size(dim);
        }
        let place = (0..shape.len()).fold(0, |place, dim| {
            let own = match given.get(dim).and_then(Option::as_ref) {
                Some(index) => index[position[shape.len()] % index.len()]
                    .rem_euclid(shape[dim] as i64) as usize,
                None => position[dim],
            };
            place * shape[dim] + own
        });
        places.push(place);
    }
    places
}

#[test]
fn indices_of_any_dimensions() {
    let shape = [2, 3, 2, 4];
    let x = Tensor::arange(48).unwrap().to_dtype(DType::F64).unwrap().reshape(shape).unwrap();
    let x = x.set_requires_grad(true).unwrap();
    let of = |size: i64| vec![size - 1, 0, -1, -size, 0];
    let all: [Option<Vec<i64>>; 4] = [2, 3, 2, 4].map(|size| Some(of(size)));
    // Every choice of dimensions, and a single index for the last of them.
    for choice in 1..16usize {
        for single in [false, true] {
            let mut given: Vec<Option<Vec<i64>>> =
                (0..4).map(|dim| all[dim].clone().filter(|_| choice >> dim & 1 == 1)).collect();
            let last = given.iter().rposition(Option::is_some).unwrap();
            if single && given.iter().flatten().count() > 1 {
                given[last].as_mut().unwrap().truncate(1);
            }
            let places = found(&shape, &given);
            let indices: Vec<Option<Tensor>> =
                given.iter().map(|index| index.as_deref().map(ints)).collect();
            let y = x.index(&indices).unwrap();
            let expected: Vec<f64> = places.iter().map(|&place| place as f64).collect();
            assert_eq!(numbers(&y), expected, "{given:?}");
            // Trailing `None`s may be left out.
            assert_eq!(numbers(&x.index(&indices[..=last]).unwrap()), expected, "{given:?}");
            let mut grads = vec![0.0; 48];
            places.iter().enumerate().for_each(|(i, &place)| grads[place] += i as f64 + 1.0);
            assert_eq!(counted(&y, &x), grads, "{given:?}");
            let values = Tensor::arange(places.len()).unwrap().to_dtype(DType::F64).unwrap();
            let values = values.affine(1.0, 100.0).unwrap().reshape(y.shape()).unwrap();
            let values = values.set_requires_grad(true).unwrap();
            for accumulate in [false, true] {
                let y = x.index_put(&indices, &values, accumulate).unwrap();
                let mut expected: Vec<f64> = (0..48).map(f64::from).collect();
                let mut writer = vec![None; 48];
                for (i, &place) in places.iter().enumerate() {
                    let old = if accumulate { expected[place] } else { 0.0 };
                    expected[place] = old + 100.0 + i as f64;
                    writer[place] = Some(i);
                }
                assert_eq!(y.shape(), shape);
                assert_eq!(numbers(&y), expected, "{given:?} {accumulate}");
                let grads: Vec<f64> = (0..48)
                    .map(
                        |at| if accumulate || writer[at].is_none() { at as f64 + 1.0 } else { 0.0 },
                    )
                    .collect();
                assert_eq!(counted(&y, &x), grads, "{given:?} {accumulate}");
                let kept = |i: usize, place: usize| accumulate || writer[place] == Some(i);
                let grads: Vec<f64> = places
                    .iter()
                    .enumerate()
                    .map(|(i, &place)| if kept(i, place) { place as f64 + 1.0 } else { 0.0 })
                    .collect();
                assert_eq!(counted(&y, &values), grads, "{given:?} {accumulate}");
            }
        }
    }
    // Values broadcast, as in `y[:, i, :, j] = v`; figures of PyTorch 2.15.
    let x = Tensor::arange(24).unwrap().reshape([2, 3, 2, 2]).unwrap();
    let (i, j) = (Tensor::new([[0], [-1]]).unwrap(), ints(&[1, 0, -1]));
    assert_eq!(x.index(&[None, Some(&i), Some(&j)]).unwrap().shape(), [2, 2, 3, 2]);
    let rows = Tensor::new([[0], [1]]).unwrap();
    let y = x.index_put(&[None, Some(&i), None, Some(&j)], &rows, false).unwrap();
    let expected = [0, 0, 0, 0, 4, 5, 6, 7, 0, 0, 0, 0, 1, 1, 1, 1, 16, 17, 18, 19, 1, 1, 1, 1];
    assert_eq!(y.to_vec::<i64>().unwrap(), expected);
    // Owned tensors, references, and rejected arguments.
    assert_eq!(x.index(&[ints(&[1])]).unwrap().to_vec::<i64>().unwrap()[0], 12);
    assert_eq!(x.index(&[&ints(&[1])]).unwrap().to_vec::<i64>().unwrap()[0], 12);
    let refused = |indices: &[Option<Tensor>]| x.index(indices).unwrap_err().to_string();
    assert_eq!(refused(&vec![None; 5]), "index: expected at most 4 indices, got 5");
    assert_eq!(refused(&[None]), "index: 0 index tensors for a tensor of shape [2, 3, 2, 2]");
    let error = refused(&[None, Some(ints(&[3]))]);
    assert!(error.starts_with("index: ") && error.contains('3'), "{error}");
}

#[test]
fn negative_indices_count_from_the_end_where_pytorch_counts_so() {
    let x = Tensor::arange(6).unwrap().to_dtype(DType::F64).unwrap().reshape([3, 2]).unwrap();
    let x = x.set_requires_grad(true).unwrap();
    let y = x.index_fill(0, &ints(&[-1, -3]), 9.0).unwrap();
    assert_eq!(numbers(&y), [9.0, 9.0, 2.0, 3.0, 9.0, 9.0]);
    assert_eq!(counted(&y, &x), [0.0, 0.0, 3.0, 4.0, 0.0, 0.0]);
    let y = x.index_fill(1, &Tensor::scalar(-2i64), 9.0).unwrap();
    assert_eq!(numbers(&y), [9.0, 1.0, 9.0, 3.0, 9.0, 5.0]);
    let one = Tensor::scalar(1.0f64).index_fill(0, &ints(&[-1]), 9.0).unwrap();
    assert_eq!((one.rank(), numbers(&one)), (0, vec![9.0]));
    let y = x.take_along_dim(&Tensor::new([[-1], [0], [-2]]).unwrap(), 1).unwrap();
    assert_eq!(numbers(&y), [1.0, 2.0, 4.0]);
    assert_eq!(counted(&y, &x), [0.0, 1.0, 2.0, 0.0, 3.0, 0.0]);
    let y = x.take(&ints(&[-1, 0])).unwrap();
    assert_eq!(numbers(&y), [5.0, 0.0]);
    let y = x.put(&ints(&[-1]), &Tensor::new([7.0f64]).unwrap(), false).unwrap();
    assert_eq!(numbers(&y)[5], 7.0);
    // The error names the index as it was given.
    for (index, named) in [
        (-4, "-4"),
        (3, "3"),
        (i64::MIN, "-9223372036854775808"),
        (i64::MAX, "9223372036854775807"),
    ] {
        let error = x.index_fill(0, &ints(&[index]), 9.0).unwrap_err().to_string();
        assert!(error.starts_with("index_fill: ") && error.contains(named), "{error}");
        let index = Tensor::from_slice(&[index], &[1, 1]).unwrap();
        let error = x.take_along_dim(&index, 0).unwrap_err().to_string();
        assert!(error.starts_with("take_along_dim: ") && error.contains(named), "{error}");
    }
    // PyTorch rejects these.
    let (last, row) = (ints(&[-1]), Tensor::ones(&[1, 2], DType::F64).unwrap());
    let corner = Tensor::new([[-1]]).unwrap();
    assert!(x.index_select(0, &last).is_err() && x.index_add(0, &last, &row, 1.0).is_err());
    assert!(x.index_copy(0, &last, &row).is_err() && x.gather(0, &corner).is_err());
    assert!(functional::embedding(&x, &last).is_err() && x.scatter_add(0, &corner, &row).is_err());
}

#[test]
fn places_of_triangles() {
    let sizes = [0, 1, 2, 3, 5, 8];
    for (rows, columns) in sizes.into_iter().flat_map(|n| sizes.map(|m| (n, m))) {
        for offset in [-9, -8, -3, -1, 0, 1, 2, 7, 8, 9, i64::MIN, i64::MAX] {
            let places: Vec<(i64, i64)> = (0..rows as i64)
                .flat_map(|row| (0..columns as i64).map(move |column| (row, column)))
                .collect();
            let expect = |y: Tensor, within: &dyn Fn(i128) -> bool| {
                let kept = places.iter().filter(|(row, column)| within((column - row).into()));
                let (of_rows, of_columns): (Vec<i64>, Vec<i64>) = kept.copied().unzip();
                assert_eq!(y.shape(), [2, of_rows.len()], "{rows} {columns} {offset}");
                let expected = [of_rows, of_columns].concat();
                assert_eq!(y.to_vec::<i64>().unwrap(), expected, "{rows} {columns} {offset}");
            };
            let offset_of = i128::from(offset);
            expect(functional::tril_indices(rows, columns, offset).unwrap(), &|d| d <= offset_of);
            expect(functional::triu_indices(rows, columns, offset).unwrap(), &|d| d >= offset_of);
        }
    }
    // The corner of a matrix that memory cannot hold.
    let y = functional::tril_indices(1 << 30, 1 << 30, 2 - (1 << 30)).unwrap();
    let rows = [(1 << 30) - 2, (1 << 30) - 1, (1 << 30) - 1];
    assert_eq!(y.to_vec::<i64>().unwrap(), [&rows[..], &[0, 0, 1]].concat());
    let y = functional::triu_indices(1 << 30, 1 << 30, (1 << 30) - 1).unwrap();
    assert_eq!(y.to_vec::<i64>().unwrap(), [0, (1 << 30) - 1]);
    assert!(functional::tril_indices(usize::MAX, usize::MAX, 0).is_err());
    assert!(functional::triu_indices(usize::MAX, 1, i64::MIN).is_err());
}

#[test]
fn lists_own_or_borrow_their_tensors() {
    let a = Tensor::new([1.0f64, 2.0]).unwrap().set_requires_grad(true).unwrap();
    let b = Tensor::new([3.0f64, 4.0]).unwrap();
    let owned = [a.clone(), b.clone(), a.clone()];
    let borrowed = [&a, &b, &a];
    macro_rules! agree {
        ($($function:ident($($argument:expr),*) => $shape:expr, $values:expr, $grads:expr;)*) => { $(
            let y = functional::$function(&borrowed $(, $argument)*).unwrap();
            let same = functional::$function(&owned $(, $argument)*).unwrap();
            for y in [y, same] {
                assert_eq!(y.shape(), $shape, stringify!($function));
                assert_eq!(numbers(&y), $values.map(f64::from), stringify!($function));
                assert_eq!(counted(&y, &a), $grads.map(f64::from), stringify!($function));
            }
        )* };
    }
    agree! {
        cat(0) => [6], [1, 2, 3, 4, 1, 2], [6, 8];
        stack(1) => [2, 3], [1, 3, 1, 2, 4, 2], [4, 10];
        hstack() => [6], [1, 2, 3, 4, 1, 2], [6, 8];
        vstack() => [3, 2], [1, 2, 3, 4, 1, 2], [6, 8];
        dstack() => [1, 2, 3], [1, 3, 1, 2, 4, 2], [4, 10];
        block_diag() => [3, 6], [1, 2, 0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 1, 2], [18, 20];
    }
    let product = functional::cartesian_prod(&borrowed[..2]).unwrap();
    assert_eq!(numbers(&product), [1.0, 3.0, 1.0, 4.0, 2.0, 3.0, 2.0, 4.0]);
    assert_eq!(functional::meshgrid(&borrowed).unwrap().len(), 3);
    assert_eq!(functional::broadcast_tensors(&borrowed).unwrap().len(), 3);
    let dot = functional::einsum("i,i,i->", &owned).unwrap();
    assert_eq!(bits(&dot), bits(&functional::einsum("i,i,i->", &borrowed).unwrap()));
}

#[test]
fn lengths_are_numbers_or_a_tensor() {
    let x = Tensor::arange(12).unwrap().to_dtype(DType::F64).unwrap().reshape([3, 2, 2]).unwrap();
    let lengths = ints(&[1, 3]);
    let packed = functional::pack_padded_sequence(&x, &lengths, false, false).unwrap();
    let same = functional::pack_padded_sequence(&x, &[1, 3], false, false).unwrap();
    assert_eq!(bits(packed.data()), bits(same.data()));
    assert_eq!(packed.lengths(), [1, 3]);
    let steps = vec![1, 3];
    functional::pack_padded_sequence(&x, &steps, false, false).unwrap();
    functional::pack_padded_sequence(&x, &steps[..], false, false).unwrap();
    let log_probs = x.log_softmax(2).unwrap();
    let targets = Tensor::new([[1], [1]]).unwrap();
    let loss = |inputs: &Tensor, labels: &Tensor| {
        functional::ctc_loss(&log_probs, &targets, inputs, labels, Default::default())
    };
    let byte = ints(&[1, 1]).to_dtype(DType::U8).unwrap();
    let expected = functional::ctc_loss(&log_probs, &targets, &[2, 3], &[1, 1], Default::default());
    assert_eq!(bits(&loss(&ints(&[2, 3]), &byte).unwrap()), bits(&expected.unwrap()));
    // A single sequence, as users of PyTorch write it.
    let one = log_probs.select(1, 0).unwrap();
    let (steps, label) = (Tensor::scalar(3i64), Tensor::scalar(1i64));
    functional::ctc_loss(&one, &ints(&[1]), &steps, &label, Default::default()).unwrap();
    let error = loss(&ints(&[2, -3]), &byte).unwrap_err().to_string();
    assert_eq!(error, "ctc_loss: expected lengths of at least 0, got -3");
    let error = loss(&targets, &byte).unwrap_err().to_string();
    assert_eq!(error, "ctc_loss: expected lengths of shape [n], got shape [2, 1]");
    let error = functional::pack_padded_sequence(&x, &x, false, false).unwrap_err().to_string();
    assert!(
        error.starts_with("pack_padded_sequence: expected the lengths of type i64, got f64"),
        "{error}"
    );
}

/// Figures of PyTorch 2.15, for logits, target probabilities and weights of three classes.
#[test]
fn cross_entropy_takes_probabilities() {
    let leaf = |x: [[f64; 3]; 2]| Tensor::new(x).unwrap().set_requires_grad(true).unwrap();
    let logits = leaf([[0.5, -1.0, 2.0], [1.5, 0.0, -0.5]]);
    let target = leaf([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]]);
    let weight = Tensor::new([1.0f64, 2.0, 0.5]).unwrap();
    let close = |x: &Tensor, expected: &[f64]| {
        let x = numbers(x);
        assert_eq!(x.len(), expected.len());
        let near = x.iter().zip(expected).all(|(x, y)| (x - y).abs() <= 1e-14 * y.abs().max(1.0));
        assert!(near, "{x:?} is not {expected:?}");
    };
    let loss = |weight, label_smoothing, reduction| {
        let options = ClassLoss { weight, label_smoothing, reduction, ..Default::default() };
        functional::cross_entropy_with(&logits, &target, &options).unwrap()
    };
    close(&functional::cross_entropy(&logits, &target).unwrap(), &[1.623833504443152]);
    let each = loss(Some(&weight), 0.0, Reduction::None);
    close(&each, &[2.353376861490015, 3.6127114244582934]);
    close(&loss(Some(&weight), 0.1, Reduction::Sum), &[5.81670727505688]);
    let mean = loss(Some(&weight), 0.1, Reduction::Mean);
    close(&mean, &[2.90835363752844]);
    let grads = mean.backward().unwrap();
    let of_logits = [
        -0.013616683505663854,
        -0.28257107568881007,
        0.296187759194474,
        0.6887861941329024,
        -0.7759255235259576,
        0.08713932939305503,
    ];
    close(grads.of(&logits).unwrap(), &of_logits);
    let of_target = [
        0.7835900834957207,
        2.9171801669914417,
        0.05429504174786033,
        0.137860070503116,
        1.625720141006232,
        0.518930035251558,
    ];
    close(grads.of(&target).unwrap(), &of_target);
    // The layer, spatial dimensions, and a single sample.
    let layer = CrossEntropyLoss::default();
    assert_eq!(numbers(&layer.forward(&logits, &target).unwrap()), [1.623833504443152]);
    let wide = |x: &Tensor| x.unsqueeze(2).unwrap().expand(&[2, 3, 4]).unwrap();
    close(&layer.forward(&wide(&logits), &wide(&target)).unwrap(), &[1.623833504443152]);
    let single = functional::cross_entropy(&logits.i(0).unwrap(), &target.i(0).unwrap());
    close(&single.unwrap(), &[1.441311296657157]);
    let ignored = ClassLoss { ignore_index: 1, ..Default::default() };
    let error = functional::cross_entropy_with(&logits, &target, &ignored).unwrap_err().to_string();
    assert!(error.starts_with("cross_entropy_with: ignore_index is 1"), "{error}");
    let error = functional::cross_entropy(&logits, &target.i(0).unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("cross_entropy: "), "{error}");
}

/// PyTorch rejects them: a single value per group overall.
#[test]
fn a_group_has_more_than_one_value() {
    let norm = |shape: &[usize], groups| {
        functional::group_norm(&Tensor::ones(shape, DType::F32)?, groups, None, None, 1e-5)
    };
    for (shape, groups) in [(&[1, 2][..], 2), (&[1, 2, 1], 2), (&[1, 1, 1], 1)] {
        let error = norm(shape, groups).unwrap_err().to_string();
        let expected =
            format!("group_norm: needs more than 1 value per group, got shape {shape:?}");
        assert_eq!(error, expected);
    }
    for (shape, groups) in
        [(&[2, 2][..], 2), (&[1, 4], 2), (&[2, 1], 1), (&[1, 2, 2], 2), (&[0, 2], 2)]
    {
        assert_eq!(norm(shape, groups).unwrap().shape(), shape);
    }
}

#[test]
fn a_parameter_is_a_leaf_of_its_own() {
    let x = Tensor::new([2.0f64]).unwrap().set_requires_grad(true).unwrap();
    let parameter = nn::parameter(&x.square().unwrap()).unwrap();
    let loss = parameter.square().unwrap();
    let grads = loss.backward().unwrap();
    assert_eq!(numbers(grads.of(&parameter).unwrap()), [8.0]);
    assert!(grads.of(&x).is_none());
    let error = nn::parameter(&ints(&[1])).unwrap_err().to_string();
    assert!(error.starts_with("parameter: "), "{error}");
}
