//! Text as tokens: each byte is one, or those of a tokenizer.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use samebits::Tensor;
use samebits::data::{Dataset, SampleContext};
use samebits::io::Tokenizer;

/// The part held out: the last of this many equal parts of the text.
const HELD_OUT_SHARE: usize = 10;

/// A text, with the part to train on and the part held out.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    tokens: Tokens,
    digest: Arc<str>,
}

#[derive(Clone, Debug)]
enum Tokens {
    Bytes(Arc<[u8]>),
    Numbers(Arc<[i64]>),
}

impl Text {
    /// Reads `file`, or the copy inside the program, as tokens of `tokenizer`, or as bytes.
    pub(crate) fn load(file: Option<&Path>, tokenizer: Option<&Tokenizer>) -> Result<Text> {
        let bytes: Arc<[u8]> = match file {
            Some(path) => std::fs::read(path)
                .with_context(|| format!("cannot read {}", path.display()))?
                .into(),
            None => include_bytes!("../data/constitution.txt").as_slice().into(),
        };
        ensure!(!bytes.is_empty(), "the text has no byte");
        let (tokens, tensor) = match tokenizer {
            None => {
                let tensor = Tensor::from_slice(&bytes, &[bytes.len()])?;
                (Tokens::Bytes(bytes), tensor)
            }
            Some(tokenizer) => {
                let text = std::str::from_utf8(&bytes).context("the text is not UTF-8")?;
                let numbers = tokenizer.encode(text)?;
                let tensor = Tensor::from_slice(&numbers, &[numbers.len()])?;
                (Tokens::Numbers(numbers.into()), tensor)
            }
        };
        let digest = samebits::digest([("text", &tensor)])?.into();
        Ok(Text { tokens, digest })
    }

    /// Returns the name of its parts.
    pub(crate) fn unit(&self) -> &'static str {
        match self.tokens {
            Tokens::Bytes(_) => "bytes",
            Tokens::Numbers(_) => "tokens",
        }
    }

    fn range(&self, places: RangeInclusive<usize>) -> Vec<i64> {
        match &self.tokens {
            Tokens::Bytes(bytes) => bytes[places].iter().copied().map(i64::from).collect(),
            Tokens::Numbers(numbers) => numbers[places].to_vec(),
        }
    }

    /// Returns the numbers of tokens to train on and held out.
    pub(crate) fn lengths(&self) -> [usize; 2] {
        let length = match &self.tokens {
            Tokens::Bytes(bytes) => bytes.len(),
            Tokens::Numbers(numbers) => numbers.len(),
        };
        [length - length / HELD_OUT_SHARE, length / HELD_OUT_SHARE]
    }

    /// Returns the windows to train on, of `context` inputs each. They begin at places drawn anew
    /// in every epoch.
    pub(crate) fn train(&self, context: usize) -> Result<Windows> {
        let [train, _] = self.lengths();
        Windows::new(self, 0, train, context, true).context("the text to train on")
    }

    /// Returns the windows of the held-out part.
    pub(crate) fn held_out(&self, context: usize) -> Result<Windows> {
        let [train, held_out] = self.lengths();
        Windows::new(self, train, held_out, context, false).context("the held-out text")
    }
}

/// Windows of a part of a text: `context` tokens, and one more as the last target.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    text: Text,
    start: usize,
    count: usize,
    context: usize,
    /// Moves each window by up to a context, by its own generator.
    moves: bool,
}

impl Windows {
    fn new(
        text: &Text,
        start: usize,
        length: usize,
        context: usize,
        moves: bool,
    ) -> Result<Windows> {
        let unit = text.unit();
        ensure!(context > 0, "a context of 0 {unit}");
        let whole = length.saturating_sub(1) / context;
        let count = whole.saturating_sub(usize::from(moves));
        let least = context.saturating_mul(1 + usize::from(moves)).saturating_add(1);
        ensure!(
            count > 0,
            "{length} {unit} are too few for a context of {context}: expected {least}"
        );
        Ok(Windows { text: text.clone(), start, count, context, moves })
    }
}

impl Dataset for Windows {
    type Item = Vec<i64>;

    fn len(&self) -> usize {
        self.count
    }

    /// Returns the identity of the text; a resume or a rank with another text is an error.
    fn describe(&self) -> String {
        let &Windows { count, context, .. } = self;
        let (unit, digest) = (self.text.unit(), &self.text.digest[..16]);
        format!("{count} windows of {context} {unit} of the text {digest}")
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> samebits::data::Result<Self::Item> {
        let step = if self.moves {
            let [word, ..] = cx.rng().next_block();
            // Equally likely, up to a bias of the context divided by 2^32.
            ((u64::from(word) * self.context as u64) >> 32) as usize
        } else {
            0
        };
        let start = self.start + index * self.context + step;
        Ok(self.text.range(start..=start + self.context))
    }
}

#[cfg(test)]
mod tests {
    use samebits::data::DataLoader;
    use samebits::trainer::StackTensors;

    use super::*;

    fn rows(windows: Windows, epoch: u64) -> Vec<Vec<i64>> {
        let loader = DataLoader::builder_with(windows, StackTensors).batch_size(1).build().unwrap();
        loader.epoch(epoch).map(|batch| batch.unwrap().data.to_vec::<i64>().unwrap()).collect()
    }

    #[test]
    fn windows_stay_in_their_part_and_move_between_epochs() {
        let bytes: Vec<u8> = (0..=120).collect();
        let tokens = Tokens::Bytes(bytes.into());
        let text = Text { tokens, digest: "0123456789abcdef".into() };
        assert_eq!(text.lengths(), [109, 12]);
        let held_out = rows(text.held_out(5).unwrap(), 0);
        assert_eq!(held_out, [[109, 110, 111, 112, 113, 114], [114, 115, 116, 117, 118, 119]]);
        let train = text.train(4).unwrap();
        assert_eq!(train.len(), 26);
        let mut starts = std::collections::BTreeSet::new();
        for epoch in 0..20 {
            for (i, row) in rows(train.clone(), epoch).into_iter().enumerate() {
                assert_eq!(row.len(), 5);
                assert!(row.windows(2).all(|pair| pair[1] == pair[0] + 1) && row[4] < 109);
                starts.insert((row[0] - 4 * i as i64) as usize);
            }
        }
        assert_eq!(starts.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
        let error = format!("{:#}", text.held_out(12).unwrap_err());
        let expected = "12 bytes are too few for a context of 12: expected 13";
        assert_eq!(error, format!("the held-out text: {expected}"));
        assert_eq!(text.train(54).unwrap().len(), 1);
        assert!(text.train(55).is_err());
    }

    #[test]
    fn the_text_of_the_program_is_plain() {
        let text = Text::load(None, None).unwrap();
        let Tokens::Bytes(bytes) = text.tokens else { panic!("expected bytes") };
        assert!(bytes.iter().all(|byte| byte.is_ascii_graphic() || b" \n".contains(byte)));
    }
}
