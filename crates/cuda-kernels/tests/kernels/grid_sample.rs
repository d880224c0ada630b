//! Sampling at given points, and its gradients.

use crate::data::{Real, Source, bits, numbers, order_sensitive, same_as};
use crate::device::{under_schedules, varies};
use samebits_cuda_kernels::Device;
use samebits_cuda_kernels::Variant::{Atomic, Deterministic};
use samebits_cuda_kernels::grid_sample::{
    GridMode, GridPadding, GridParams, Sampling, grid_sample, grid_sample_grid_grad,
    grid_sample_input_grad,
};
use samebits_numerics::nan::canonical;

struct Options {
    size: [usize; 3],
    mode: GridMode,
    padding: GridPadding,
    align: bool,
}

/// Position, weight and derivative of each tap of one dimension, and the derivative of the
/// position.
type Axis = (Vec<(Option<usize>, f64, f64)>, f64);

impl Options {
    fn axis(&self, coordinate: f64, size: usize) -> Axis {
        let n = size as f64;
        let (at, scale) = if self.align {
            ((coordinate + 1.0) * ((n - 1.0) / 2.0), (n - 1.0) / 2.0)
        } else {
            (((coordinate + 1.0) * n - 1.0) / 2.0, n / 2.0)
        };
        let inside = |x: f64| (x >= 0.0 && x < n).then_some(x as usize);
        match self.mode {
            GridMode::Nearest => {
                (vec![(inside(self.pad(at, n).0.round_ties_even()), 1.0, 0.0)], 0.0)
            }
            GridMode::Linear => {
                let (at, slope) = self.pad(at, n);
                let part = at - at.floor();
                let taps = vec![
                    (inside(at.floor()), 1.0 - part, -1.0),
                    (inside(at.floor() + 1.0), part, 1.0),
                ];
                (taps, scale * slope)
            }
            GridMode::Cubic => {
                let (left, a) = (at.floor(), -0.75f64);
                let t = at - left;
                let near = |x: f64| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
                let far = |x: f64| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
                let near1 = |x: f64| (3.0 * (a + 2.0) * x - 2.0 * (a + 3.0)) * x;
                let far1 = |x: f64| (3.0 * a * x - 10.0 * a) * x + 8.0 * a;
                let w = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)];
                let s = [far1(t + 1.0), near1(t), -near1(1.0 - t), -far1(2.0 - t)];
                let place = |k: usize| inside(self.pad(left + k as f64 - 1.0, n).0);
                ((0..4).map(|k| (place(k), w[k], s[k])).collect(), scale)
            }
        }
    }

    fn pad(&self, at: f64, n: f64) -> (f64, f64) {
        let clip = |at: f64| match at {
            at if at <= 0.0 => (0.0, 0.0),
            at if at >= n - 1.0 => (n - 1.0, 0.0),
            at => (at, 1.0),
        };
        match self.padding {
            GridPadding::Zeros => (at, 1.0),
            GridPadding::Border => clip(at),
            GridPadding::Reflection => {
                let (low, high) = if self.align { (0.0, n - 1.0) } else { (-0.5, n - 0.5) };
                let span = high - low;
                let (mirrored, slope) = if span == 0.0 {
                    (0.0, 0.0)
                } else {
                    let (far, sign) = if at < low { (low - at, -1.0) } else { (at - low, 1.0) };
                    if (far / span).floor() % 2.0 == 0.0 {
                        (far % span + low, sign)
                    } else {
                        (span - far % span + low, -sign)
                    }
                };
                let (at, inside) = clip(mirrored);
                (at, slope * inside)
            }
        }
    }

    /// Returns position, weight and derivatives (x, y, z) of a point's taps, and the derivatives of
    /// its position.
    fn taps<T: Real>(&self, at: &[T]) -> (Vec<(usize, f64, [f64; 3])>, [f64; 3]) {
        let mut axes: Vec<Axis> = vec![(vec![(Some(0), 1.0, 0.0)], 0.0); 3];
        for (d, &c) in at.iter().enumerate() {
            axes[d] = self.axis(c.into(), self.size[2 - d]);
        }
        let mut found = Vec::new();
        for &(z, wz, sz) in &axes[2].0 {
            for &(y, wy, sy) in &axes[1].0 {
                for &(x, wx, sx) in &axes[0].0 {
                    if let (Some(x), Some(y), Some(z)) = (x, y, z) {
                        let place = (z * self.size[1] + y) * self.size[2] + x;
                        let slopes = [wz * wy * sx, wz * sy * wx, sz * wy * wx];
                        found.push((place, wz * wy * wx, slopes));
                    }
                }
            }
        }
        (found, [0, 1, 2].map(|d| axes[d].1))
    }
}

#[test]
fn sampling_and_its_gradients() {
    under_schedules(|device| {
        let mut all = sampling::<f32>(device);
        all.extend(sampling::<f64>(device));
        all
    });
}

/// Returns whether a tap of this weight counts.
fn counts<T: Real>(weight: f64) -> bool {
    T::from_f64(weight) != T::from_f64(0.0)
}

fn sampling<T: Real>(device: &Device) -> Vec<u64> {
    let mut all = Vec::new();
    for (mode, dims) in [
        (GridMode::Nearest, 2),
        (GridMode::Linear, 2),
        (GridMode::Cubic, 2),
        (GridMode::Nearest, 3),
        (GridMode::Linear, 3),
    ] {
        for padding in [GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection] {
            for align in [false, true] {
                let size = if dims == 2 { [1, 4, 5] } else { [2, 3, 4] };
                let options = Options { size, mode, padding, align };
                // So many points beyond the border that segments of the input's gradient are cut.
                let many = mode == GridMode::Linear && padding == GridPadding::Border && dims == 2;
                let (batch, channels, points) = (2, 2, if many { 3000 } else { 9 });
                let input = &size[3 - dims..];
                let mut grid = vec![1; dims + 2];
                (grid[0], grid[dims], grid[dims + 1]) = (batch, points, dims);
                let params = GridParams { mode, padding, align_corners: align };
                let input = [&[batch, channels], input].concat();
                let sample = Sampling::new("grid_sample", &input, &grid, params).unwrap();
                let plane: usize = size.iter().product();
                let mut source = Source::new(dims as u64);
                let mut x = T::wild(&mut source, batch * channels * plane);
                let mut grad = T::wild(&mut source, batch * channels * points);
                // Only taps of weight 0 ignore them.
                (x[1], grad[1]) = (T::from_f64(f64::INFINITY), T::from_f64(f64::INFINITY));
                let mut grid: Vec<T> = source
                    .plain(batch * points * dims)
                    .iter()
                    .map(|&x| T::from_f64(f64::from(x) * 1.7))
                    .collect();
                let ends = [f64::NAN, 0.5, 1e30, -0.25, f64::INFINITY, -1.0];
                grid[..6].copy_from_slice(&ends.map(T::from_f64));
                let taps: Vec<_> = grid.chunks(dims).map(|at| options.taps(at)).collect();
                let what = format!("{dims}D {mode:?} {padding:?} {align}");
                let (x_dev, grid_dev) = (device.upload(&x).unwrap(), device.upload(&grid).unwrap());
                let g_dev = device.upload(&grad).unwrap();

                let expected: Vec<T> = (0..grad.len())
                    .map(|o| {
                        let plane = &x[o / points * plane..];
                        let point = o / points / channels * points + o % points;
                        let taps = taps[point].0.iter().filter(|tap| counts::<T>(tap.1));
                        canonical(taps.fold(T::default(), |sum, &(p, w, _)| {
                            plane[p].fma(T::from_f64(w), sum)
                        }))
                    })
                    .collect();
                let got = grid_sample(device, &sample, &x_dev, &grid_dev).unwrap();
                same_as(&what, &device.download(&got).unwrap(), &expected);

                let expected: Vec<T> = (0..x.len())
                    .map(|i| {
                        let (image, place) = (i / plane / channels, i % plane);
                        T::sum((0..points).flat_map(|point| {
                            let g = grad[i / plane * points + point];
                            taps[image * points + point]
                                .0
                                .iter()
                                .filter(move |tap| tap.0 == place && counts::<T>(tap.1))
                                .map(move |tap| g * T::from_f64(tap.1))
                        }))
                    })
                    .collect();
                let got = grid_sample_input_grad(device, &sample, &g_dev, &grid_dev, Deterministic)
                    .unwrap();
                let got = device.download(&got).unwrap();
                same_as(&format!("{what} input"), &got, &expected);
                all.extend(numbers(&got));

                let mut expected = Vec::new();
                for (point, (taps, slopes)) in taps.iter().enumerate() {
                    let image = point / points;
                    let mut sums = [0.0f64; 3];
                    for c in 0..channels {
                        let number = image * channels + c;
                        let mut inner = [0.0f64; 3];
                        for (place, _, weights) in taps {
                            for d in 0..3 {
                                if weights[d] != 0.0 {
                                    inner[d] += x[number * plane + place].into() * weights[d];
                                }
                            }
                        }
                        for d in 0..3 {
                            let g = grad[number * points + point % points];
                            sums[d] += g.into() * inner[d];
                        }
                    }
                    for d in 0..dims {
                        let nearest = mode == GridMode::Nearest;
                        let value = if nearest { 0.0 } else { sums[d] * slopes[d] };
                        expected.push(canonical(T::from_f64(value)));
                    }
                }
                let got =
                    grid_sample_grid_grad(device, &sample, &g_dev, &x_dev, &grid_dev).unwrap();
                same_as(&format!("{what} grid"), &device.download(&got).unwrap(), &expected);
            }
        }
    }
    all
}

#[test]
fn the_atomic_gradient_varies() {
    let grad = order_sensitive(300);
    varies(|device| {
        let (mode, padding) = (GridMode::Nearest, GridPadding::Border);
        let params = GridParams { mode, padding, align_corners: true };
        let sample = Sampling::new("g", &[1, 1, 1, 1], &[1, 1, 300, 2], params).unwrap();
        let g = device.upload(&grad).unwrap();
        let grid = device.upload(&vec![0.0f32; 600]).unwrap();
        bits(
            &device
                .download(&grid_sample_input_grad(device, &sample, &g, &grid, Atomic).unwrap())
                .unwrap(),
        )
    });
}
