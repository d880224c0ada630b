//! Runs PTX on the CPU under any schedule, with memory and race checks.
