//! Windows of consecutive integers.

use super::{Number, Rows};
use crate::{Dataset, Error, Result, SampleContext};

/// A dataset of windows in a file of integers; see [`Rows::into_windows`].
#[derive(Clone, Debug)]
pub struct Windows {
    rows: Rows,
    length: usize,
    stride: usize,
}

impl Windows {
    pub(super) fn new(rows: Rows, length: usize, stride: usize) -> Result<Self> {
        for (option, value) in [("length of a window", length), ("stride", stride)] {
            if value == 0 {
                return Err(Error::option(rows.op, option, 0, "must be at least 1"));
            }
        }
        Ok(Windows { rows, length, stride })
    }
}

impl Dataset for Windows {
    type Item = Vec<i64>;

    fn len(&self) -> usize {
        self.rows.len.checked_sub(self.length).map_or(0, |last| last / self.stride + 1)
    }

    fn describe(&self) -> String {
        let Windows { rows, length, stride } = self;
        format!("windows of {length} every {stride} in {}", rows.describe())
    }

    fn get(&self, index: usize, _: &mut SampleContext<'_>) -> Result<Vec<i64>> {
        let len = self.len();
        if index >= len {
            return Err(Error::IndexOutOfRange { op: self.rows.op, index, len });
        }
        let offset = self.rows.offset(index * self.stride);
        let bytes = self.rows.bytes_at(offset, self.length)?;
        self.rows.exact(offset, &bytes, "i64", Number::to_i64)
    }
}
