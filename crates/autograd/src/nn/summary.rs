use std::collections::BTreeSet;
use std::fmt;

use crate::Tensor;

/// The role of a tensor in a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A trainable tensor; it is trained unless it requires no gradient.
    Parameter,
    /// Part of the state, but not trained.
    Buffer,
}

/// The names, shapes and sizes of a module's tensors; see [`Module::summary`](super::Module::summary).
#[derive(Clone, Debug, Default)]
pub struct Summary {
    rows: Vec<[String; 4]>,
    shared: BTreeSet<u64>,
    parameters: usize,
    trained: usize,
    buffers: usize,
}

impl Summary {
    pub(super) fn push(&mut self, name: &str, kind: Kind, tensor: &Tensor) {
        let shape = format!("{:?}", tensor.shape());
        self.rows.push([
            name.to_owned(),
            shape,
            tensor.dtype().to_string(),
            tensor.numel().to_string(),
        ]);
        let again = tensor.identity().is_some_and(|identity| !self.shared.insert(identity));
        match kind {
            Kind::Buffer => self.buffers += tensor.numel(),
            Kind::Parameter if again => {}
            Kind::Parameter => {
                self.parameters += tensor.numel();
                if tensor.requires_grad() {
                    self.trained += tensor.numel();
                }
            }
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["name", "shape", "type", "elements"];
        let width = |i: usize| {
            let longest = self.rows.iter().map(|row| row[i].len()).max().unwrap_or(0);
            longest.max(header[i].len())
        };
        let widths = [0, 1, 2, 3].map(width);
        let rows = self.rows.iter().map(|row| row.each_ref().map(String::as_str));
        for [name, shape, dtype, elements] in std::iter::once(header).chain(rows) {
            let [a, b, c, d] = widths;
            writeln!(f, "{name:a$}  {shape:b$}  {dtype:c$}  {elements:>d$}")?;
        }
        writeln!(
            f,
            "{} parameters, {} of them trained; {} elements of buffers",
            self.parameters, self.trained, self.buffers
        )
    }
}
