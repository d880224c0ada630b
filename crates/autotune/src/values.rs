//! Result elements of any type, as bytes.

use std::fmt;

use bytemuck::Pod;
use half::{bf16, f16};

/// Element type of a result.
pub trait Element: Pod + Send {
    /// The type's identifier in [`Values`].
    const TYPE: ElementType;
}

macro_rules! elements {
    ($($variant:ident $type:ident $doc:literal $number:expr;)*) => {
        /// The type of the elements of [`Values`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum ElementType {
            $(#[doc = $doc] $variant,)*
        }

        impl ElementType {
            /// Returns the number of bytes per element.
            #[must_use]
            pub fn size(self) -> usize {
                match self {
                    $(ElementType::$variant => size_of::<$type>(),)*
                }
            }

            /// Converts an element to the nearest f64.
            fn number(self, bytes: &[u8]) -> f64 {
                match self {
                    $(ElementType::$variant => $number(bytemuck::pod_read_unaligned::<$type>(bytes)),)*
                }
            }

            /// Formats an element as text.
            fn text(self, bytes: &[u8]) -> String {
                match self {
                    $(ElementType::$variant => {
                        format!("{:?}", bytemuck::pod_read_unaligned::<$type>(bytes))
                    })*
                }
            }
        }

        $(impl Element for $type {
            const TYPE: ElementType = ElementType::$variant;
        })*
    };
}

elements! {
    F16 f16 "Half precision." f16::to_f64;
    Bf16 bf16 "The leading half of an f32." bf16::to_f64;
    F32 f32 "Single precision." f64::from;
    F64 f64 "Double precision." f64::from;
    I8 i8 "Integers of 8 bits." f64::from;
    I16 i16 "Integers of 16 bits." f64::from;
    I32 i32 "Integers of 32 bits." f64::from;
    I64 i64 "Integers of 64 bits." of_i64;
    U8 u8 "Bytes." f64::from;
    U16 u16 "Integers of 16 bits without sign." f64::from;
    U32 u32 "Integers of 32 bits without sign." f64::from;
    U64 u64 "Integers of 64 bits without sign." of_u64;
}

fn of_i64(x: i64) -> f64 {
    x as f64
}

fn of_u64(x: u64) -> f64 {
    x as f64
}

/// The elements of a result: their type and their bytes.
///
/// # Examples
///
/// ```
/// use samebits_autotune::{ElementType, Values};
///
/// let values = Values::of(&[1.0f32, -2.0]);
/// assert_eq!((values.element(), values.len()), (ElementType::F32, 2));
/// assert_eq!(values.numbers().collect::<Vec<f64>>(), [1.0, -2.0]);
/// assert_eq!(values.bytes(), Values::owned(vec![1.0f32, -2.0]).bytes());
/// ```
pub struct Values<'a> {
    element: ElementType,
    data: Data<'a>,
}

enum Data<'a> {
    Borrowed(&'a [u8]),
    Owned(Box<dyn Bytes>),
}

trait Bytes: Send {
    fn bytes(&self) -> &[u8];
}

impl<T: Element> Bytes for Vec<T> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }
}

impl Values<'_> {
    /// Borrows the elements of a slice.
    pub fn of<T: Element>(elements: &[T]) -> Values<'_> {
        Values { element: T::TYPE, data: Data::Borrowed(bytemuck::cast_slice(elements)) }
    }

    /// Takes ownership of the elements of a vector.
    #[must_use]
    pub fn owned<T: Element>(elements: Vec<T>) -> Values<'static> {
        Values { element: T::TYPE, data: Data::Owned(Box::new(elements)) }
    }

    /// Returns the element type.
    #[must_use]
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Returns the bytes, in this machine's byte order.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Borrowed(bytes) => bytes,
            Data::Owned(elements) => elements.bytes(),
        }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes().len() / self.element.size()
    }

    /// Returns true if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// Returns each element as the nearest f64.
    pub fn numbers(&self) -> impl ExactSizeIterator<Item = f64> {
        let element = self.element;
        self.bytes().chunks_exact(element.size()).map(move |bytes| element.number(bytes))
    }

    /// Formats element `i` as text.
    pub(crate) fn text(&self, i: usize) -> String {
        let size = self.element.size();
        self.element.text(&self.bytes()[i * size..][..size])
    }
}

impl fmt::Debug for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Values({:?}, {})", self.element, self.len())
    }
}
