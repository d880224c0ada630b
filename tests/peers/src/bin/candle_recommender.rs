use candle_core::{DType, Device, Module, Result, Tensor};
use candle_nn::loss::cross_entropy;
use candle_nn::{AdamW, Embedding, Linear, Optimizer, VarBuilder, VarMap, embedding, linear};

struct Recommender {
    bag: Embedding,
    hidden: Linear,
    out: Linear,
}

impl Recommender {
    fn new(items: usize, vb: VarBuilder) -> Result<Recommender> {
        Ok(Recommender {
            bag: embedding(items, 64, vb.pp("bag"))?,
            hidden: linear(64, 128, vb.pp("hidden"))?,
            out: linear(128, items, vb.pp("out"))?,
        })
    }

    fn forward(&self, history: &Tensor) -> Result<Tensor> {
        let x = self.bag.forward(history)?.mean(1)?;
        self.out.forward(&self.hidden.forward(&x)?.relu()?)
    }
}

fn step(model: &Recommender, optimizer: &mut AdamW, x: &Tensor, y: &Tensor) -> Result<()> {
    optimizer.backward_step(&cross_entropy(&model.forward(x)?, y)?)
}

fn main() -> Result<()> {
    let (device, vars) = (Device::Cpu, VarMap::new());
    let model = Recommender::new(30, VarBuilder::from_varmap(&vars, DType::F32, &device))?;
    let mut optimizer = AdamW::new_lr(vars.all_vars(), 1e-3)?;
    let x = Tensor::new(&[[3u32, 1, 4], [1, 5, 9]], &device)?;
    step(&model, &mut optimizer, &x, &Tensor::new(&[2u32, 6], &device)?)
}
