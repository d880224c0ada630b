//! Statistics with known distributions, for tests with fixed seeds.

/// Returns the Kolmogorov–Smirnov distance of a sample from a continuous distribution, times √n. It
/// exceeds 1.95 with a probability of 1 in 1000.
pub(crate) fn kolmogorov_smirnov(mut sample: Vec<f64>, distribution: impl Fn(f64) -> f64) -> f64 {
    sample.sort_by(f64::total_cmp);
    let n = sample.len() as f64;
    let distance = sample.iter().enumerate().fold(0.0f64, |distance, (i, &x)| {
        let below = distribution(x);
        distance.max(below - i as f64 / n).max((i + 1) as f64 / n - below)
    });
    distance * n.sqrt()
}

/// Returns Pearson's statistic as a normal deviate (Wilson and Hilferty). It exceeds 3.1 with a
/// probability of 1 in 1000. Neighbouring categories are pooled until 10 events are expected.
pub(crate) fn chi_square(found: &[u64], chances: &[f64]) -> f64 {
    assert_eq!(found.len(), chances.len());
    let total = found.iter().sum::<u64>() as f64;
    let (mut statistic, mut cells) = (0.0, 0);
    let (mut seen, mut expected) = (0.0, 0.0);
    let mut left = 1.0f64;
    for (found, chance) in found.iter().zip(chances) {
        seen += *found as f64;
        expected += chance * total;
        left -= chance;
        // The rest must not be too little for a cell of its own.
        if expected >= 10.0 && left * total >= 10.0 {
            statistic += (seen - expected).powi(2) / expected;
            cells += 1;
            (seen, expected) = (0.0, 0.0);
        }
    }
    expected += left.max(0.0) * total;
    if expected > 0.0 {
        statistic += (seen - expected).powi(2) / expected;
        cells += 1;
    } else {
        assert_eq!(seen, 0.0, "an impossible category");
    }
    assert!(cells > 1, "too few categories");
    let freedom = f64::from(cells - 1);
    let spread = 2.0 / (9.0 * freedom);
    ((statistic / freedom).cbrt() - (1.0 - spread)) / spread.sqrt()
}

/// Integrates `density` from `low` to `high` by Simpson's rule.
pub(crate) fn integral(low: f64, high: f64, density: impl Fn(f64) -> f64) -> f64 {
    const STEPS: usize = 2000;
    let h = (high - low) / STEPS as f64;
    let mut sum = density(low) + density(high);
    for i in 1..STEPS {
        sum += density(low + h * i as f64) * if i % 2 == 1 { 4.0 } else { 2.0 };
    }
    sum * h / 3.0
}

/// Returns the distribution function of `density` above `low`, tabulated up to `high`.
pub(crate) fn tabulated(low: f64, high: f64, density: impl Fn(f64) -> f64) -> impl Fn(f64) -> f64 {
    const CELLS: usize = 4096;
    let h = (high - low) / CELLS as f64;
    let mut table = vec![0.0];
    for i in 0..CELLS {
        let x = low + h * i as f64;
        let cell = (density(x) + 4.0 * density(x + h / 2.0) + density(x + h)) * h / 6.0;
        table.push(table[i] + cell);
    }
    move |x| {
        let at = ((x - low) / h).clamp(0.0, CELLS as f64);
        let cell = (at as usize).min(CELLS - 1);
        table[cell] + (table[cell + 1] - table[cell]) * (at - cell as f64)
    }
}
