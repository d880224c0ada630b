//! In which order blocks, warps and lanes run.

/// An order of execution.
///
/// Hardware promises none, so a kernel's result may not depend on it. The emulator runs any of
/// these, always the same way for the same value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// Blocks, warps and the lanes of an atomic instruction in ascending order.
    #[default]
    InOrder,
    /// All of them in descending order.
    Reversed,
    /// A permutation of each, drawn from the seed: of the blocks once for the launch, of the
    /// warps anew after every barrier and again whenever a warp is preempted, which happens
    /// after a drawn number of instructions, and of the lanes for each block.
    Seeded(u64),
}

impl Schedule {
    /// Reads `in-order`, `reversed` or `seed:N`.
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

/// Draws the orders of one launch.
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

    /// SplitMix64.
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
                    // The bias of a remainder is far below anything a schedule could show.
                    let other = (self.draw() % (last as u64 + 1)) as usize;
                    items.swap(last, other);
                }
            }
        }
    }

    /// Returns the number of instructions a warp may run before another one gets its turn.
    pub(crate) fn quantum(&mut self) -> u64 {
        match self.schedule {
            // Long enough to matter only to a warp that waits for another one.
            Schedule::InOrder | Schedule::Reversed => 1 << 16,
            Schedule::Seeded(_) => 32 + (self.draw() & 0xfff),
        }
    }
}
