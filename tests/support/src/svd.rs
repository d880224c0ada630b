//! The singular value decomposition in its written order, column by column.

use samebits_numerics::reduce::sum_by;

type Columns = Vec<Vec<f64>>;

/// 2 to the power of −400.
const NEGLIGIBLE: f64 = f64::from_bits((1023 - 400) << 52);

/// Returns `u`, `s` and `v` of a matrix of finite numbers, all row-major, before they are rounded: an
/// independent statement of the order that both backends document.
pub fn written_svd(x: &[f64], [m, n]: [usize; 2]) -> [Vec<f64>; 3] {
    let (k, wide) = (m.min(n), m < n);
    if k == 0 {
        return [vec![], vec![], vec![]];
    }
    let a: Columns = if wide {
        x.chunks(n).map(<[f64]>::to_vec).collect()
    } else {
        (0..n).map(|j| x[j..].iter().step_by(n).copied().collect()).collect()
    };
    let scale = power(a.iter().flatten().copied());
    let a: Columns = a.iter().map(|x| x.iter().map(|x| x / scale).collect()).collect();
    let (left, values, right) = if k >= 2 && m.max(n) >= 3 * k && (k >= 16 || m.max(n) >= 200) {
        let (mut r, mut q) = (a, Vec::new());
        for s in 0..k {
            let tau = reflection(&mut r[s][s..]);
            let v = r[s][s + 1..].to_vec();
            r[s + 1..].iter_mut().for_each(|x| reflect(tau, &v, &mut x[s..]));
            r[s].truncate(s + 1);
            q.push((tau, v));
        }
        r.iter_mut().for_each(|x| x.resize(k, 0.0));
        let (mut left, values, right) = by_bidiagonal(r);
        left.iter_mut().for_each(|x| x.resize(m.max(n), 0.0));
        for (s, (tau, v)) in q.iter().enumerate().rev() {
            left.iter_mut().for_each(|x| reflect(*tau, v, &mut x[s..]));
        }
        (left, values, right)
    } else {
        by_bidiagonal(a)
    };

    let mut order: Vec<usize> = (0..k).collect();
    order.sort_by(|&a, &b| values[b].abs().total_cmp(&values[a].abs()));
    let sign = |j: usize| if values[j] < 0.0 { -1.0 } else { 1.0 };
    let left: Columns = order.iter().map(|&j| left[j].clone()).collect();
    let right: Columns =
        order.iter().map(|&j| right[j].iter().map(|x| x * sign(j)).collect()).collect();
    let (mut u, mut v) = if wide { (right, left) } else { (left, right) };
    for (u, v) in u.iter_mut().zip(&mut v) {
        let lead = u.iter().fold(0.0f64, |lead, &x| if x.abs() > lead.abs() { x } else { lead });
        if lead < 0.0 {
            u.iter_mut().chain(v).for_each(|x| *x = -*x);
        }
    }
    let rows = |x: &Columns, m: usize| -> Vec<f64> {
        (0..m).flat_map(|i| x.iter().map(move |x| x[i])).collect()
    };
    let s = order.iter().map(|&j| values[j].abs() * scale).collect();
    [rows(&u, m), s, rows(&v, n)]
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    sum_by(x.len(), |i| x[i] * y[i])
}

/// Returns the power of two at or below the largest magnitude, or 1 for zeros.
fn power(x: impl IntoIterator<Item = f64>) -> f64 {
    let largest = x.into_iter().fold(0.0f64, |max, x| max.max(x.abs()));
    let powers = (1..2046u64).map(|biased| f64::from_bits(biased << 52));
    match powers.rev().find(|&power| power <= largest) {
        Some(power) => power,
        None if largest > 0.0 => f64::MIN_POSITIVE,
        None => 1.0,
    }
}

/// Makes a column zero after its first element, and stores the vector of the reflection there; see
/// `qr`. Returns the factor. The largest element of the matrix must be about 1.
fn reflection(x: &mut [f64]) -> f64 {
    if x.iter().all(|x| x.abs() <= NEGLIGIBLE) {
        x[1..].fill(0.0);
        return 0.0;
    }
    let scale = power(x.iter().copied());
    x.iter_mut().for_each(|x| *x /= scale);
    let (head, squares) = (x[0], dot(&x[1..], &x[1..]));
    if squares == 0.0 {
        x[0] *= scale;
        x[1..].fill(0.0);
        return 0.0;
    }
    let beta = -head.mul_add(head, squares).sqrt().copysign(head);
    x[1..].iter_mut().for_each(|x| *x /= head - beta);
    x[0] = beta * scale;
    (beta - head) / beta
}

/// Applies the reflection of the vector `(1, v)`.
fn reflect(tau: f64, v: &[f64], x: &mut [f64]) {
    if tau != 0.0 {
        let share = tau * (x[0] + dot(v, &x[1..]));
        x[0] -= share;
        x[1..].iter_mut().zip(v).for_each(|(x, v)| *x = (-share).mul_add(*v, *x));
    }
}

/// Returns the product of reflections of vectors that begin at their number, of which each column is
/// `rows` long.
fn form(reflections: &[(f64, Vec<f64>)], rows: usize) -> Columns {
    let mut basis: Columns = (0..reflections.len())
        .map(|j| (0..rows).map(|i| f64::from(u8::from(i == j))).collect())
        .collect();
    for (s, (tau, v)) in reflections.iter().enumerate().rev() {
        basis[s..].iter_mut().for_each(|x| reflect(*tau, v, &mut x[s..]));
    }
    basis
}

/// Decomposes a matrix with at least as many rows as columns. Values may be negative.
fn by_bidiagonal(mut a: Columns) -> (Columns, Vec<f64>, Columns) {
    let (n, rows) = (a.len(), a[0].len());
    let (mut d, mut e) = (Vec::new(), Vec::new());
    let (mut lefts, mut rights) = (Vec::new(), Vec::new());
    // Turns -0 to +0.
    a.iter_mut().flatten().for_each(|x| *x += 0.0);
    for k in 0..n {
        let tau = reflection(&mut a[k][k..]);
        d.push(a[k][k]);
        lefts.push((tau, a[k][k + 1..].to_vec()));
        let mut v = a[k].clone();
        v[..k].fill(0.0);
        v[k] = 1.0;
        if k + 1 == n {
            break;
        }
        let shares: Vec<f64> = a[k + 1..].iter().map(|x| tau * dot(&v, x)).collect();
        let mut row: Vec<f64> = a[k + 1..].iter().zip(&shares).map(|(x, z)| x[k] - z).collect();
        let mut sums = vec![0.0; rows];
        for (i, sum) in sums.iter_mut().enumerate().skip(k + 1) {
            for (a, row) in a[k + 1..].chunks(32).zip(row.chunks(32)) {
                *sum += a.iter().zip(row).fold(0.0, |sum, (a, x)| x.mul_add(a[i], sum));
            }
        }
        let head = row[0];
        let tau = reflection(&mut row);
        let first = std::mem::replace(&mut row[0], 1.0);
        e.push(first);
        rights.push((tau, row[1..].to_vec()));
        if tau == 0.0 {
            row.fill(0.0);
            sums.fill(0.0);
        } else {
            let share = dot(&shares, &row);
            for i in k + 1..rows {
                let sum = (-first).mul_add(a[k + 1][i], sums[i]) / (head - first);
                sums[i] = tau * (-share).mul_add(v[i], sum);
            }
        }
        for ((x, share), factor) in a[k + 1..].iter_mut().zip(shares).zip(row) {
            for i in k + 1..rows {
                x[i] = (-factor).mul_add(sums[i], (-share).mul_add(v[i], x[i]));
            }
        }
    }
    let mut left = form(&lefts, rows);
    let inner = form(&rights, n - 1);
    let mut right: Columns = vec![vec![0.0; n]; n];
    right[0][0] = 1.0;
    for (x, inner) in right[1..].iter_mut().zip(inner) {
        x[1..].copy_from_slice(&inner);
    }
    iterate(&mut d, &mut e, &mut left, &mut right);
    (left, d, right)
}

/// Makes the elements above the diagonal negligible.
fn iterate(d: &mut [f64], e: &mut [f64], left: &mut Columns, right: &mut Columns) {
    let mut last = d.len() - 1;
    for _ in 0..30 * d.len() {
        let negligible = |i: usize| {
            e[i].abs() <= f64::EPSILON / 2.0 * (d[i].abs() + d[i + 1].abs())
                || e[i].abs() <= NEGLIGIBLE
        };
        while last > 0 && negligible(last - 1) {
            last -= 1;
        }
        if last == 0 {
            return;
        }
        let first = (0..last).rev().find(|&i| i == 0 || negligible(i - 1)).unwrap();
        match start(&d[first..=last], &e[first..last]) {
            Some([mut f, mut g]) => {
                for i in first..last {
                    let [c, s, r] = rotation(f, g);
                    rotate(right, i, c, s);
                    if i > first {
                        e[i - 1] = r;
                    }
                    f = c.mul_add(d[i], s * e[i]);
                    e[i] = c.mul_add(e[i], -(s * d[i]));
                    g = s * d[i + 1];
                    d[i + 1] *= c;
                    let [c, s, r] = rotation(f, g);
                    rotate(left, i, c, s);
                    d[i] = r;
                    f = c.mul_add(e[i], s * d[i + 1]);
                    d[i + 1] = c.mul_add(d[i + 1], -(s * e[i]));
                    if i + 1 < last {
                        g = s * e[i + 1];
                        e[i + 1] *= c;
                    }
                }
                e[last - 1] = f;
            }
            None => {
                let (mut c, mut before) = (1.0, [1.0, 0.0]);
                for i in first..last {
                    let [cosine, sine, r] = rotation(d[i] * c, e[i]);
                    rotate(right, i, cosine, sine);
                    if i > first {
                        e[i - 1] = before[1] * r;
                    }
                    let [c_left, s_left, r] = rotation(before[0] * r, d[i + 1] * sine);
                    rotate(left, i, c_left, s_left);
                    d[i] = r;
                    (c, before) = (cosine, [c_left, s_left]);
                }
                let rest = d[last] * c;
                e[last - 1] = rest * before[1];
                d[last] = rest * before[0];
            }
        }
    }
}

/// Returns the two elements that the first rotation of a sweep makes one, or `None` for a sweep
/// without a shift.
fn start(d: &[f64], e: &[f64]) -> Option<[f64; 2]> {
    let last = e.len();
    if d.iter().any(|d| d.abs() <= NEGLIGIBLE) {
        return None;
    }
    let (f, g, h) = (d[last - 1].abs(), e[last - 1].abs(), d[last].abs());
    let root = |x: f64| x.mul_add(x, g * g).sqrt();
    let shift = 2.0 * f / (root(f + h) + root(f - h)) * h;
    let size = d[0].abs();
    let ratio = shift / size;
    (ratio * ratio >= f64::EPSILON / 2.0)
        .then(|| [(size - shift) * (1f64.copysign(d[0]) + shift / d[0]), e[0]])
}

/// Returns the cosine and the sine that rotate `[f, g]` to `[r, 0]`, and `r`.
fn rotation(f: f64, g: f64) -> [f64; 3] {
    let squares = f.mul_add(f, g * g);
    if squares < NEGLIGIBLE * NEGLIGIBLE {
        return [1.0, 0.0, f];
    }
    let r = squares.sqrt();
    [f / r, g / r, r]
}

/// Rotates column `i` with the next one.
fn rotate(columns: &mut Columns, i: usize, c: f64, s: f64) {
    for row in 0..columns[i].len() {
        let (x, y) = (columns[i][row], columns[i + 1][row]);
        columns[i][row] = c.mul_add(x, s * y);
        columns[i + 1][row] = c.mul_add(y, -(s * x));
    }
}
