//! Arguments as a user of PyTorch has them.

use samebits_autograd::nn::{
    self, AlphaDropout, Attend, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout,
    Flatten, GRU, Layer, RReLU, TransformerEncoderLayer,
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
    // What a thread may do that nobody seeded, though another was.
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
            // Errors stay those of any other probability, and what draws is refused as before.
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
    // Nor does a given generator move.
    let (mut generator, x) = (Generator::new(3), Tensor::ones(&[2, 3, 4], DType::F32).unwrap());
    functional::dropout_with(&x, 0.0, &mut generator).unwrap();
    functional::dropout1d_with(&x, -0.0, &mut generator).unwrap();
    functional::alpha_dropout_with(&x, 0.0, &mut generator).unwrap();
    functional::feature_alpha_dropout_with(&x, 0.0, &mut generator).unwrap();
    functional::rrelu_with(&x, 0.25, 0.25, &mut generator).unwrap();
    assert_eq!(generator, Generator::new(3));
}
