//! Matrix products: bits against the written order, on any machine.

mod invariance;

use invariance::on_every_machine;
use samebits_cpu_kernels::matmul::{Error, K_BLOCK, Matrix, Real, matmul, matmul_batched};
/// Computes the contract in ten lines.
fn oracle<T: Real>(
    m: usize,
    n: usize,
    k: usize,
    a: impl Fn(usize, usize) -> T,
    b: impl Fn(usize, usize) -> T,
) -> Vec<T> {
    let mut out = vec![T::default(); m * n];
    for i in 0..m {
        for j in 0..n {
            for block in (0..k).step_by(K_BLOCK) {
                let mut partial = T::default();
                for step in block..k.min(block + K_BLOCK) {
                    partial = a(i, step).fma(b(step, j), partial);
                }
                let sum = out[i * n + j].plus(partial);
                out[i * n + j] = if block == 0 { partial } else { sum };
            }
            out[i * n + j] = out[i * n + j].canonical();
        }
    }
    out
}

struct Xorshift(u64);

impl Xorshift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound
    }
}

trait Sample: Real {
    /// Draws mostly ordinary numbers.
    fn ordinary(rng: &mut Xorshift) -> Self;
    /// Draws zeros of both signs, subnormals, huge numbers, infinities and NaN among ordinary ones.
    fn any(rng: &mut Xorshift) -> Self;
    fn bits(self) -> u64;
}

impl Sample for f32 {
    fn ordinary(rng: &mut Xorshift) -> f32 {
        (rng.next() >> 40) as f32 / 8388608.0 - 1.0
    }
    fn any(rng: &mut Xorshift) -> f32 {
        match rng.below(400) {
            0 => f32::INFINITY,
            1 => f32::NEG_INFINITY,
            2 => f32::from_bits(0xffc0_1234),
            3 => 3e38,
            4..60 => -0.0,
            60..100 => 0.0,
            100..130 => f32::from_bits((rng.next() as u32) & 0x807f_ffff),
            130..160 => 1e-30 * Self::ordinary(rng),
            _ => Self::ordinary(rng),
        }
    }
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
}

impl Sample for f64 {
    fn ordinary(rng: &mut Xorshift) -> f64 {
        (rng.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
    fn any(rng: &mut Xorshift) -> f64 {
        match rng.below(400) {
            0 => f64::INFINITY,
            1 => f64::NEG_INFINITY,
            2 => f64::NAN,
            3 => 1e308,
            4..60 => -0.0,
            60..100 => 0.0,
            100..130 => f64::from_bits(rng.next() & 0x800f_ffff_ffff_ffff),
            130..160 => 1e-300 * Self::ordinary(rng),
            _ => Self::ordinary(rng),
        }
    }
    fn bits(self) -> u64 {
        self.to_bits()
    }
}

#[track_caller]
fn assert_bits<T: Sample>(got: &[T], want: &[T], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!(g.bits() == w.bits(), "{what}: element {i}: {g:?} instead of {w:?}");
    }
}

/// Sizes on both sides of every tile and block border.
const SHAPES: [(usize, usize, usize); 58] = [
    (1, 1, 1),
    (1, 1, 600),
    (2, 3, 0),
    (3, 5, 7),
    (1, 200, 30),
    (2, 130, 256),
    (5, 70, 257),
    (200, 1, 40),
    (70, 3, 300),
    (14, 32, 256),
    (15, 33, 255),
    (13, 31, 513),
    (6, 16, 8),
    (7, 17, 9),
    (64, 10, 77),
    (100, 10, 1),
    (29, 64, 64),
    (43, 47, 300),
    (300, 20, 5),
    (150, 97, 270),
    (31, 600, 20),
    (333, 33, 33),
    // The last panel is as wide as a narrower tile.
    (20, 48, 300),
    // Several adjacent tasks at every level.
    (3, 2100, 50),
    (15, 1300, 30),
    (131, 1030, 12),
    (1300, 9, 40),
    // A few rows, of which the columns are turned.
    (4, 77, 600),
    (2, 300, 41),
    (63, 3, 260),
    // A matrix and a vector, in several tasks.
    (1, 1029, 300),
    (2051, 1, 257),
    (1, 33, 31),
    // Few outputs, whose blocks of steps are computed apart.
    (1, 1, 9000),
    (3, 1, 4096),
    (1, 3, 8200),
    (3, 5, 12345),
    (4, 4, 8704),
    (7, 9, 4200),
    // One row or column, whose blocks of steps fill vectors, and some more.
    (20, 1, 4500),
    (6, 1, 8192),
    (37, 1, 9900),
    (1, 2, 4352),
    (1, 8, 4500),
    (1, 40, 10_300),
    // A column and a row.
    (5, 37, 1),
    (1200, 130, 1),
    // Few steps, of rows that are computed whole: blocks of columns, and some more.
    (5, 37, 4),
    (7, 700, 8),
    (3, 33, 2),
    (9, 521, 3),
    (4, 1055, 5),
    (2, 350, 6),
    (6, 300, 7),
    // Up to three columns, one block of steps or several.
    (1, 2, 256),
    (1, 3, 513),
    // Few columns, many steps or few: computed transposed or not.
    (700, 17, 3),
    (130, 6, 90),
];

fn products_match_the_oracle<T: Sample>(draw: fn(&mut Xorshift) -> T) {
    let mut rng = Xorshift(0x1234_5678_9abc_def1);
    let cases: Vec<_> = SHAPES
        .iter()
        .map(|&(m, n, k)| {
            // Offsets that are not multiples of a vector, rows longer than needed (but for many
            // steps of a few), both orders.
            let mut few = |n: usize| n + if k < 4096 || n > 8 { rng.below(4) } else { 0 };
            let (rb, ca) = (few(n), few(m));
            let (ra, cb) = (k + rng.below(4), k + rng.below(4));
            let a: Vec<T> = (0..(m * ra).max(k * ca) + 3).map(|_| draw(&mut rng)).collect();
            let b: Vec<T> = (0..(k * rb).max(n * cb) + 3).map(|_| draw(&mut rng)).collect();
            let shift = rng.below(4);
            let wants: Vec<Vec<T>> = (0..4)
                .map(|order| {
                    let (ai, ak) = if order & 1 == 0 { (ra, 1) } else { (1, ca) };
                    let (bk, bj) = if order & 2 == 0 { (rb, 1) } else { (1, cb) };
                    oracle(
                        m,
                        n,
                        k,
                        |i, s| a[shift + i * ai + s * ak],
                        |s, j| b[shift + s * bk + j * bj],
                    )
                })
                .collect();
            (m, n, k, ra, rb, ca, cb, shift, a, b, wants)
        })
        .collect();
    on_every_machine(|machine| {
        for (m, n, k, ra, rb, ca, cb, shift, a, b, wants) in &cases {
            let (m, n, k) = (*m, *n, *k);
            let (a, b) = (&a[*shift..], &b[*shift..]);
            for (order, want) in wants.iter().enumerate() {
                let left = if order & 1 == 0 {
                    Matrix::with_strides(a, m, k, *ra, 1).unwrap()
                } else {
                    Matrix::with_strides(a, m, k, 1, *ca).unwrap()
                };
                let right = if order & 2 == 0 {
                    Matrix::with_strides(b, k, n, *rb, 1).unwrap()
                } else {
                    Matrix::with_strides(b, k, n, 1, *cb).unwrap()
                };
                let mut out = vec![T::any(&mut Xorshift(7)); m * n];
                matmul(left, right, &mut out).unwrap();
                assert_bits(&out, want, &format!("{m}x{n}x{k} order {order} at {machine}"));
            }
        }
    });
}

#[test]
fn f32_products_match_the_oracle() {
    products_match_the_oracle(f32::ordinary);
}

#[test]
fn f64_products_match_the_oracle() {
    products_match_the_oracle(f64::ordinary);
}

#[test]
fn f32_products_of_special_values_match_the_oracle() {
    products_match_the_oracle(f32::any);
}

#[test]
fn f64_products_of_special_values_match_the_oracle() {
    products_match_the_oracle(f64::any);
}

#[test]
fn a_row_does_not_depend_on_the_batch() {
    let mut rng = Xorshift(99);
    let (m, n, k) = (153, 77, 300);
    let a: Vec<f32> = (0..m * k).map(|_| f32::ordinary(&mut rng)).collect();
    let b: Vec<f32> = (0..k * n).map(|_| f32::ordinary(&mut rng)).collect();
    let right = Matrix::new(&b, k, n).unwrap();
    let mut whole = vec![0.0; m * n];
    matmul(Matrix::new(&a, m, k).unwrap(), right, &mut whole).unwrap();
    for i in 0..m {
        let mut row = vec![0.0; n];
        matmul(Matrix::new(&a[i * k..][..k], 1, k).unwrap(), right, &mut row).unwrap();
        assert_bits(&row, &whole[i * n..][..n], "row alone");
    }
}

#[test]
fn batches_match_single_products() {
    let mut rng = Xorshift(5);
    for (count, m, n, k) in [
        (1, 4, 4, 4),
        (33, 16, 16, 16),
        (7, 64, 64, 64),
        (3, 200, 40, 300),
        (0, 2, 2, 2),
        // Several per task: with ragged edges, and with the operands exchanged.
        (61, 7, 5, 9),
        (20, 50, 3, 33),
        // A row or a column, of up to 32.
        (33, 1, 4, 4),
        (40, 1, 29, 11),
        (40, 29, 1, 11),
        (64, 6, 1, 16),
        // More rows than a task of a single product has; tasks that share packed columns.
        (17, 130, 20, 40),
        (5, 131, 300, 70),
        // Vectors, and products too small for a tile.
        (70, 41, 1, 300),
        (9, 1, 70, 33),
        (50, 8, 8, 8),
        (9, 32, 16, 16),
        (100, 3, 4, 15),
        (700, 5, 13, 16),
        (70, 3, 19, 10),
        (30, 9, 32, 13),
        (21, 31, 17, 7),
        (8, 2, 1, 1),
        (50, 29, 1, 11),
        (40, 7, 1, 16),
        (30, 1, 3, 5),
        (30, 1, 13, 5),
        // So small that each is a lane of a vector.
        (100, 2, 1, 3),
        (45, 4, 4, 1),
        (77, 3, 3, 2),
        (32, 1, 19, 1),
        (1000, 2, 2, 2),
        // Few outputs of many steps.
        (3, 2, 3, 4500),
        (1, 6, 11, 5000),
        (9, 13, 1, 4500),
        // A few long rows, whose last lanes overlap those before.
        (6, 13, 1, 700),
        (5, 2, 13, 700),
    ] {
        let a: Vec<f32> = (0..count * m * k).map(|_| f32::any(&mut rng)).collect();
        let b: Vec<f32> = (0..(count + 2) * n * k).map(|_| f32::any(&mut rng)).collect();
        let a_offsets: Vec<_> = (0..count).map(|p| p * m * k).collect();
        let left = Matrix::new(&a, if count == 0 { 0 } else { m }, k).unwrap();
        for (step, column, different) in [(1, k, 2), (n, 1, 2), (1, k, count + 1)] {
            let b_offsets: Vec<_> = (0..count).map(|p| p % different * n * k).collect();
            let want: Vec<f32> = (0..count)
                .flat_map(|p| {
                    let (a, b) = (&a[a_offsets[p]..], &b[b_offsets[p]..]);
                    oracle(m, n, k, |i, s| a[i * k + s], |s, j| b[s * step + j * column])
                })
                .collect();
            let right = Matrix::with_strides(&b, k, n, step, column).unwrap();
            on_every_machine(|machine| {
                let mut out = vec![1.0; count * m * n];
                matmul_batched(left, &a_offsets, right, &b_offsets, &mut out).unwrap();
                assert_bits(&out, &want, &format!("{count} of {m}x{n}x{k} at {machine}"));
            });
        }
    }
}

/// FPRev's probe: with `big` at i, `-big` at j and small numbers elsewhere, the result counts the
/// numbers added after the two big ones have met.
#[test]
fn the_order_of_addition_is_the_written_one() {
    let k = 2 * K_BLOCK + 40;
    let probe = |i: usize, j: usize| -> f32 {
        let mut a = vec![1.0f32; k];
        a[i] = 1e30;
        a[j] = -1e30;
        let b = vec![1.0f32; k * 40];
        let mut out = vec![0.0; 40];
        matmul(Matrix::new(&a, 1, k).unwrap(), Matrix::new(&b, k, 40).unwrap(), &mut out).unwrap();
        assert!(out.iter().all(|x| *x == out[0]));
        out[0]
    };
    for (i, j) in [
        (0, 1),
        (0, 255),
        (3, 100),
        (0, 256),
        (100, 300),
        (256, 257),
        (300, 500),
        (5, 540),
        (512, 551),
        (300, 530),
    ] {
        // Within a block all later steps survive. Across blocks, the later block absorbs all its
        // own steps, and only the blocks after it survive.
        let (first, second) = (i / K_BLOCK, j / K_BLOCK);
        let block_end = k.min((second + 1) * K_BLOCK);
        let want = if first == second {
            (k - block_end) + (block_end - 1 - j) + first * K_BLOCK
        } else {
            k - block_end
        };
        assert_eq!(probe(i, j), want as f32, "big numbers at {i} and {j}");
    }
}

#[test]
fn refusals_name_both_sides() {
    let data = [0.0f32; 12];
    let a = Matrix::new(&data, 3, 4).unwrap();
    let b = Matrix::new(&data, 3, 4).unwrap();
    let error = matmul(a, b, &mut [0.0; 12]).unwrap_err();
    assert_eq!(error, Error::InnerSize { a: (3, 4), b: (3, 4) });
    assert_eq!(
        error.to_string(),
        "matmul: a is 3x4 and b is 3x4; the columns of a must equal the rows of b"
    );
    let error = matmul(a, b.transposed(), &mut [0.0; 8]).unwrap_err();
    assert_eq!(error, Error::OutputSize { want: 9, got: 8 });
    let error = Matrix::with_strides(&data, 3, 4, 5, 1).unwrap_err();
    assert!(matches!(error, Error::OutOfBounds { len: 12, .. }));
    let error = Matrix::with_strides(&data, 3, 4, usize::MAX, 1).unwrap_err();
    assert!(matches!(error, Error::OutOfBounds { .. }));
    let error = matmul_batched(a, &[0, 1], b.transposed(), &[0, 0], &mut [0.0; 18]).unwrap_err();
    assert!(matches!(error, Error::OutOfBounds { offset: 1, .. }));
    let error = matmul_batched(a, &[0], b.transposed(), &[0, 0], &mut [0.0; 18]).unwrap_err();
    assert_eq!(error, Error::BatchSize { a: 1, b: 2 });
}
