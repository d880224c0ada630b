//! Text for snapshots: one value a line, so that a diff shows the changed value.

use std::fmt::{self, Debug, Display, Write as _};

/// The number of values that [`Listing::values`] shows.
const SHOWN: usize = 8;

/// Text of a snapshot: sections with a title each.
///
/// ```
/// use test_support::listing::Listing;
///
/// let mut listing = Listing::default();
/// listing.values("halves", &[0.5f32, -1.5]);
/// listing.error("no number", "one".parse::<u8>());
/// let expected = "\
/// halves: 2 values
///   0  0.5                       0x3f000000
///   1  -1.5                      0xbfc00000
///   digest of all                0x521f7265245ac935
///
/// no number
///   invalid digit found in string
/// ";
/// assert_eq!(listing.to_string(), expected);
/// ```
#[derive(Debug, Default)]
pub struct Listing(String);

impl Listing {
    /// Adds the first eight values, in decimal and as bits, and the digest of all.
    ///
    /// The decimal number reads back as the same bits, except for a NaN's payload.
    pub fn values<T: Value>(&mut self, title: &str, values: &[T]) {
        let count = values.len();
        self.title(format_args!("{title}: {count} value{}", if count == 1 { "" } else { "s" }));
        for (i, value) in values.iter().enumerate().take(SHOWN) {
            self.line(format_args!("{i}  {:<24}  0x{}", format!("{value:?}"), value.hex()));
        }
        if count > 1 {
            self.line(format_args!("{:<27}  0x{:016x}", "digest of all", digest(values)));
        }
    }

    /// Adds a text, line by line.
    pub fn text(&mut self, title: &str, text: impl Display) {
        self.title(format_args!("{title}"));
        for line in text.to_string().lines() {
            self.line(format_args!("{line}"));
        }
    }

    /// Adds the message of an error.
    ///
    /// # Panics
    ///
    /// If there is no error.
    #[track_caller]
    pub fn error<T>(&mut self, title: &str, result: Result<T, impl Display>) {
        match result {
            Ok(_) => panic!("{title}: expected an error"),
            Err(error) => self.text(title, error),
        }
    }

    fn title(&mut self, title: fmt::Arguments<'_>) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        writeln!(self.0, "{gap}{title}").expect("strings grow");
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        let line = format!("  {line}");
        writeln!(self.0, "{}", line.trim_end()).expect("strings grow");
    }
}

impl Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the FNV-1a hash of the values' little-endian bytes.
pub fn digest<T: Value>(values: &[T]) -> u64 {
    values
        .iter()
        .flat_map(|value| value.bytes())
        .fold(0xcbf29ce484222325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3))
}

/// A number with a fixed number of bytes, or a truth value.
pub trait Value: Copy + Debug {
    /// Returns the little-endian bytes.
    fn bytes(self) -> Vec<u8>;

    /// Returns the bits in hexadecimal.
    fn hex(self) -> String {
        self.bytes().iter().rev().map(|byte| format!("{byte:02x}")).collect()
    }
}

macro_rules! value {
    ($($type:ty),+) => {$(
        impl Value for $type {
            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
        }
    )+};
}
value!(f32, f64, i32, i64, u8, u16, u32, u64, u128);

impl Value for bool {
    fn bytes(self) -> Vec<u8> {
        vec![u8::from(self)]
    }
}
