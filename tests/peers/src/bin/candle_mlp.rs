use candle_core::{DType, Device, Module, Result, Tensor};
use candle_nn::loss::cross_entropy;
use candle_nn::{AdamW, Linear, Optimizer, VarBuilder, VarMap, linear};

struct Mlp {
    hidden: Linear,
    out: Linear,
}

impl Mlp {
    fn new(vb: VarBuilder) -> Result<Mlp> {
        Ok(Mlp { hidden: linear(784, 512, vb.pp("hidden"))?, out: linear(512, 10, vb.pp("out"))? })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.out.forward(&self.hidden.forward(x)?.relu()?)
    }
}

fn step(model: &Mlp, optimizer: &mut AdamW, x: &Tensor, y: &Tensor) -> Result<()> {
    optimizer.backward_step(&cross_entropy(&model.forward(x)?, y)?)
}

fn main() -> Result<()> {
    let (device, vars) = (Device::Cpu, VarMap::new());
    let model = Mlp::new(VarBuilder::from_varmap(&vars, DType::F32, &device))?;
    let mut optimizer = AdamW::new_lr(vars.all_vars(), 1e-3)?;
    let x = Tensor::rand(0f32, 1f32, (4, 784), &device)?;
    step(&model, &mut optimizer, &x, &Tensor::new(&[3u32, 1, 4, 1], &device)?)
}
