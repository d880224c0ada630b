//! Operators on tensors, scalars and results of operators.

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::functional::{self as f, Operand};
use crate::{Result, Tensor};

/// Implements one operator between tensors, between a tensor and a `Result` of an operator, and
/// between a tensor and a number. Rust forbids an operator between two results, or a result and a
/// number: neither type belongs to this crate. One float and one integer type are enough: with a
/// second of either, literals would need a type suffix.
macro_rules! operator {
    ($Trait:ident::$method:ident, $function:ident) => {
        operator!(@tensors $Trait::$method, $function; Tensor, Tensor; Tensor, &Tensor; &Tensor, Tensor; &Tensor, &Tensor);
        operator!(@right $Trait::$method, $function; Tensor, &Tensor);
        operator!(@left $Trait::$method, $function; Tensor, &Tensor);
        operator!(@numbers $Trait::$method, $function; f64, i32);
    };
    (@tensors $Trait:ident::$method:ident, $function:ident; $($left:ty, $right:ty);*) => {$(
        impl $Trait<$right> for $left {
            type Output = Result<Tensor>;

            #[track_caller]
            fn $method(self, other: $right) -> Result<Tensor> {
                f::$function(&self, &other)
            }
        }
    )*};
    (@right $Trait:ident::$method:ident, $function:ident; $($left:ty),*) => {$(
        impl $Trait<Result<Tensor>> for $left {
            type Output = Result<Tensor>;

            #[track_caller]
            fn $method(self, other: Result<Tensor>) -> Result<Tensor> {
                f::$function(&self, &other?)
            }
        }
    )*};
    (@left $Trait:ident::$method:ident, $function:ident; $($right:ty),*) => {$(
        impl $Trait<$right> for Result<Tensor> {
            type Output = Result<Tensor>;

            #[track_caller]
            fn $method(self, other: $right) -> Result<Tensor> {
                f::$function(&self?, &other)
            }
        }
    )*};
    (@numbers $Trait:ident::$method:ident, $function:ident; $($number:ty),*) => {$(
        operator!(@number $Trait::$method, $function, $number; Tensor, &Tensor);
    )*};
    (@number $Trait:ident::$method:ident, $function:ident, $number:ty; $($tensor:ty),*) => {$(
        impl $Trait<$number> for $tensor {
            type Output = Result<Tensor>;

            #[track_caller]
            fn $method(self, other: $number) -> Result<Tensor> {
                f::$function(&self, &other.operand(stringify!($method), &self)?)
            }
        }

        impl $Trait<$tensor> for $number {
            type Output = Result<Tensor>;

            #[track_caller]
            fn $method(self, other: $tensor) -> Result<Tensor> {
                f::$function(&self.operand(stringify!($method), &other)?, &other)
            }
        }
    )*};
}

operator!(Add::add, add);
operator!(Sub::sub, sub);
operator!(Mul::mul, mul);
operator!(Div::div, div);

impl Neg for Tensor {
    type Output = Result<Tensor>;

    #[track_caller]
    fn neg(self) -> Result<Tensor> {
        f::neg(&self)
    }
}

impl Neg for &Tensor {
    type Output = Result<Tensor>;

    #[track_caller]
    fn neg(self) -> Result<Tensor> {
        f::neg(self)
    }
}
