//! The f32 functions on 16 Mi elements in memory, at the best level of this machine, and `exp`,
//! `sin` and `erf` at each lower level.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use samebits_numerics::math::{self, Exponents, UnaryF32};
use samebits_numerics::simd::{self, Level};

const COUNT: usize = 1 << 24;

/// Returns values spread evenly over (-8, 8), or (0, 8) for a function of positive numbers.
fn inputs(positive: bool) -> Vec<f32> {
    (0..COUNT as u32)
        .map(|i| {
            let x = i.wrapping_mul(0x9e37_79b1) as i32 as f32 / i32::MAX as f32 * 8.0;
            if positive { x.abs() + 1e-3 } else { x }
        })
        .collect()
}

fn unary(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("math");
    group.throughput(Throughput::Elements(COUNT as u64));
    group.sample_size(10);
    let mut output = vec![0.0; COUNT];
    let (any, positive, unit) = (inputs(false), inputs(true), {
        let mut unit = inputs(false);
        unit.iter_mut().for_each(|x| *x /= 8.0);
        unit
    });
    let best = simd::supported();
    macro_rules! bench {
        ($input:expr, $level:expr; $($function:ident)*) => {
            $(
                let id = BenchmarkId::new(math::$function::NAME, $level.name());
                group.bench_function(id, |b| {
                    b.iter(|| math::$function.map_at($level, $input, &mut output));
                });
            )*
        };
    }
    bench!(&any, best; Exp Exp2 Expm1 Sin Cos Tan Sinpi Cospi Atan Sinh Cosh Tanh Sigmoid Erf Erfc Cbrt);
    bench!(&positive, best; Log Log2 Log10 Log1p Sqrt Rsqrt);
    bench!(&unit, best; Asin Acos);
    for level in Level::ALL.into_iter().filter(|&level| level < best) {
        bench!(&any, level; Exp Sin Erf);
    }
    group.bench_function(BenchmarkId::new("pow", best.name()), |b| {
        b.iter(|| math::pow_slice_at(best, &positive, Exponents::One(2.5), &mut output));
    });
    group.finish();
}

criterion_group!(benches, unary);
criterion_main!(benches);
