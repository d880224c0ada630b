use candle_core::{DType, Device, Module, Result, Tensor};
use candle_nn::loss::cross_entropy;
use candle_nn::{
    AdamW, Embedding, LSTM, Linear, Optimizer, RNN, VarBuilder, VarMap, embedding, linear, lstm,
};

struct Tagger {
    embed: Embedding,
    lstm: LSTM,
    out: Linear,
}

impl Tagger {
    fn new(words: usize, tags: usize, vb: VarBuilder) -> Result<Tagger> {
        Ok(Tagger {
            embed: embedding(words, 64, vb.pp("embed"))?,
            lstm: lstm(64, 256, Default::default(), vb.pp("lstm"))?,
            out: linear(256, tags, vb.pp("out"))?,
        })
    }

    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        let states = self.lstm.seq(&self.embed.forward(ids)?)?;
        self.out.forward(&self.lstm.states_to_tensor(&states)?)
    }
}

fn step(model: &Tagger, optimizer: &mut AdamW, ids: &Tensor, tags: &Tensor) -> Result<()> {
    let logits = model.forward(ids)?.flatten(0, 1)?;
    optimizer.backward_step(&cross_entropy(&logits, &tags.flatten_all()?)?)
}

fn main() -> Result<()> {
    let (device, vars) = (Device::Cpu, VarMap::new());
    let model = Tagger::new(50, 7, VarBuilder::from_varmap(&vars, DType::F32, &device))?;
    let mut optimizer = AdamW::new_lr(vars.all_vars(), 1e-3)?;
    let ids = Tensor::new(&[[3u32, 1, 4], [1, 5, 9]], &device)?;
    step(&model, &mut optimizer, &ids, &Tensor::new(&[[2u32, 6, 5], [3, 5, 0]], &device)?)
}
