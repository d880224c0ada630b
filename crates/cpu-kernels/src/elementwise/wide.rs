//! The elementary functions of f64.

use samebits_numerics::math;

use super::function::Function1;

macro_rules! functions64 {
    ($($name:ident = $function:ident $(, each $each:ident)?;)*) => {
        $(
            #[derive(Clone, Copy)]
            pub(super) struct $name;

            impl Function1<f64> for $name {
                #[inline(always)]
                fn eval(self, x: f64) -> f64 {
                    math::f64::$function(x)
                }
                $(
                    #[inline(always)]
                    fn each(self, x: &[f64], out: &mut [f64]) {
                        math::f64::$each(x, out);
                    }
                )?
            }
        )*
    };
}

functions64! {
    Exp64 = exp;
    Exp264 = exp2;
    Expm164 = expm1;
    Log64 = log;
    Log264 = log2;
    Log1064 = log10;
    Log1p64 = log1p;
    Rsqrt64 = rsqrt, each rsqrt_each;
    Sin64 = sin, each sin_each;
    Cos64 = cos, each cos_each;
    Tanh64 = tanh;
    Sigmoid64 = sigmoid, each sigmoid_each;
    Erf64 = erf, each erf_each;
}
