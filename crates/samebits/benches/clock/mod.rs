//! The clock of processor time.

use cpu_time::ProcessTime;

/// Returns the processor time that this process has used, of all its threads.
pub(crate) fn processor_seconds() -> f64 {
    ProcessTime::now().as_duration().as_secs_f64()
}
