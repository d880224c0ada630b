use candle_core::{DType, Device, Module, ModuleT, Result, Tensor};
use candle_nn::loss::cross_entropy;
use candle_nn::{
    AdamW, BatchNorm, Conv2d, Conv2dConfig, Linear, Optimizer, VarBuilder, VarMap, batch_norm,
    conv2d, linear,
};

struct Cnn {
    conv1: Conv2d,
    norm1: BatchNorm,
    conv2: Conv2d,
    norm2: BatchNorm,
    out: Linear,
}

impl Cnn {
    fn new(vb: VarBuilder) -> Result<Cnn> {
        let padded = Conv2dConfig { padding: 1, ..Default::default() };
        Ok(Cnn {
            conv1: conv2d(3, 64, 3, padded, vb.pp("conv1"))?,
            norm1: batch_norm(64, 1e-5, vb.pp("norm1"))?,
            conv2: conv2d(64, 128, 3, padded, vb.pp("conv2"))?,
            norm2: batch_norm(128, 1e-5, vb.pp("norm2"))?,
            out: linear(128, 10, vb.pp("out"))?,
        })
    }

    fn forward(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        let x = self.norm1.forward_t(&self.conv1.forward(x)?, train)?.relu()?.max_pool2d(2)?;
        let x = self.norm2.forward_t(&self.conv2.forward(&x)?, train)?.relu()?;
        self.out.forward(&x.mean((2, 3))?)
    }
}

fn step(model: &Cnn, optimizer: &mut AdamW, x: &Tensor, y: &Tensor) -> Result<()> {
    optimizer.backward_step(&cross_entropy(&model.forward(x, true)?, y)?)
}

fn main() -> Result<()> {
    let (device, vars) = (Device::Cpu, VarMap::new());
    let model = Cnn::new(VarBuilder::from_varmap(&vars, DType::F32, &device))?;
    let mut optimizer = AdamW::new_lr(vars.all_vars(), 1e-3)?;
    let x = Tensor::rand(0f32, 1f32, (2, 3, 16, 16), &device)?;
    step(&model, &mut optimizer, &x, &Tensor::new(&[3u32, 1], &device)?)
}
