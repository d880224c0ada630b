//! Copies and fills of dense memory on several threads.

use crate::backend::{Task, run_tasks};

/// Bytes that a thread copies or fills at least: below, it costs more to wake another.
const PART_BYTES: usize = 1 << 18;

/// Parts at most.
const MOST_PARTS: usize = 64;

/// Copies elements; many on several threads.
pub(crate) fn copy<T: bytemuck::Pod + Send + Sync>(from: &[T], to: &mut [T]) {
    shared(to, |start, to| to.copy_from_slice(&from[start..][..to.len()]));
}

/// Sets elements to a value; many on several threads.
pub(crate) fn fill<T: bytemuck::Pod + Send + Sync>(to: &mut [T], value: T) {
    shared(to, |_, to| to.fill(value));
}

/// Calls `f(start, part)` for parts of `to`; large ones on several threads.
fn shared<T: Send>(to: &mut [T], f: impl Fn(usize, &mut [T]) + Sync) {
    const LINE: usize = 64;
    let wanted = (size_of_val(to) / PART_BYTES).min(MOST_PARTS);
    if wanted < 2 {
        return f(0, to);
    }
    let (size, f) = (to.len().div_ceil(wanted).next_multiple_of(LINE), &f);
    let parts = to.chunks_mut(size).enumerate();
    let task = |(number, part)| -> Task<'_> { Box::new(move || f(number * size, part)) };
    run_tasks(parts.map(task).collect());
}
