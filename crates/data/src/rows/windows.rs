//! Windows of consecutive integers.

use super::{Rows, Value};
use crate::{Dataset, Error, Result, SampleContext};

/// A dataset of windows in a file of integers; see [`Rows::into_windows`].
#[derive(Clone, Debug)]
pub struct Windows<T = i64> {
    rows: Rows<T>,
    length: usize,
    stride: usize,
}

impl Windows {
    pub(super) fn new(rows: Rows<i64>, length: usize, stride: usize) -> Result<Self> {
        for (option, value) in [("length of a window", length), ("stride", stride)] {
            if value == 0 {
                return Err(Error::option(rows.op, option, 0, "must be at least 1"));
            }
        }
        Ok(Windows { rows, length, stride })
    }
}

impl<T: Value> Windows<T> {
    /// Converts the integers to type `U`. Integers that `U` does not hold give [`Error::Inexact`].
    #[must_use]
    pub fn typed<U: Value>(self) -> Windows<U> {
        let Windows { rows, length, stride } = self;
        Windows { rows: rows.typed(), length, stride }
    }
}

impl<T: Value> Dataset for Windows<T> {
    type Item = Vec<T>;

    fn len(&self) -> usize {
        self.rows.len.checked_sub(self.length).map_or(0, |last| last / self.stride + 1)
    }

    fn describe(&self) -> String {
        let Windows { rows, length, stride } = self;
        format!("windows of {length} every {stride} in {}", rows.describe())
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<Vec<T>> {
        let len = self.len();
        if index >= len {
            return Err(Error::IndexOutOfRange { op: self.rows.op, index, len });
        }
        let offset = self.rows.offset(index * self.stride)?;
        self.rows.values_at(offset, self.length, cx.worker().scratch())
    }
}
