//! The order in which blocks, warps and lanes run.

/// An order of execution.
///
/// Hardware promises no order, so a kernel's result must not depend on it. The emulator runs any of
/// these orders, and always the same one for the same value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// Blocks, warps and the lanes of an atomic instruction in ascending order.
    #[default]
    InOrder,
    /// All of them in descending order.
    Reversed,
    /// A permutation of each, drawn from the seed. That of blocks is drawn once per launch, that of
    /// lanes once per block. That of warps is drawn after every barrier and whenever a warp is
    /// preempted, which happens after a drawn number of instructions.
    Seeded(u64),
}

impl Schedule {
    /// Parses `in-order`, `reversed` or `seed:N`.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_ptx_emulator::Schedule;
    ///
    /// assert_eq!(Schedule::parse("seed:7"), Some(Schedule::Seeded(7)));
    /// assert_eq!(Schedule::parse("random"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Schedule> {
        match text {
            "in-order" => Some(Schedule::InOrder),
            "reversed" => Some(Schedule::Reversed),
            _ => text.strip_prefix("seed:")?.parse().ok().map(Schedule::Seeded),
        }
    }
}

/// The random orders of one launch.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    schedule: Schedule,
    state: u64,
}

impl Order {
    pub(crate) fn new(schedule: Schedule) -> Order {
        let state = match schedule {
            Schedule::Seeded(seed) => seed,
            _ => 0,
        };
        Order { schedule, state }
    }

    /// Draws a number with SplitMix64.
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Puts `items`, which are in ascending order, into the schedule's order.
    pub(crate) fn arrange<T>(&mut self, items: &mut [T]) {
        match self.schedule {
            Schedule::InOrder => {}
            Schedule::Reversed => items.reverse(),
            Schedule::Seeded(_) => {
                for last in (1..items.len()).rev() {
                    // The bias of the remainder is negligible for a schedule.
                    let other = (self.draw() % (last as u64 + 1)) as usize;
                    items.swap(last, other);
                }
            }
        }
    }

    /// Returns the number of instructions that a warp may run in one turn.
    pub(crate) fn quantum(&mut self) -> u64 {
        match self.schedule {
            // Long enough to matter only to a warp that waits for another one.
            Schedule::InOrder | Schedule::Reversed => 1 << 16,
            Schedule::Seeded(_) => 32 + (self.draw() & 0xfff),
        }
    }
}
