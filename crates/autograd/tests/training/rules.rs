//! The update rules of optimisers, element by element in their written order.

use samebits_autograd::optim::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, Optimizer, RAdam, RmsProp, Sgd,
};

use super::{Bag, GRADIENTS, START, bits};

/// Enough for `RAdam` to adapt.
const STEPS: usize = 8;

/// Returns the parameter after a step for each of [`GRADIENTS`].
fn trained(optimizer: &mut dyn Optimizer) -> Vec<f32> {
    let mut bag = Bag::new(&[("w", &START)]);
    for gradient in GRADIENTS.iter().cycle().take(STEPS) {
        let gradients = bag.gradients(&[Some(gradient)]);
        optimizer.step(&mut bag, &gradients).unwrap();
    }
    bag.values(0)
}

/// Returns the same by `step`, which updates one element: (step from 1, parameter, gradient, kept).
fn expected<const KEPT: usize>(
    initial: f32,
    step: impl Fn(i32, f32, f32, &mut [f32; KEPT]) -> f32,
) -> Vec<f32> {
    (0..START.len())
        .map(|i| {
            let (mut p, mut kept) = (START[i], [initial; KEPT]);
            for (t, gradient) in (1..).zip(GRADIENTS.iter().cycle().take(STEPS)) {
                p = step(t, p, gradient[i], &mut kept);
            }
            p
        })
        .collect()
}

#[test]
fn rmsprop_follows_its_written_order() {
    let alpha = (0.99f32, (1.0 - 0.99f64) as f32);
    let plain = expected(0.0, |_, p, g, [v]| {
        *v = alpha.0 * *v + alpha.1 * (g * g);
        -0.01f32 * (g / (v.sqrt() + 1e-8)) + p
    });
    assert_eq!(bits(&trained(&mut RmsProp::new(0.01).unwrap())), bits(&plain));
    let full = expected(0.0, |_, p, g, [v, m, b]| {
        let g = 0.1f32 * p + g;
        *v = alpha.0 * *v + alpha.1 * (g * g);
        *m = alpha.0 * *m + alpha.1 * g;
        *b = 0.9f32 * *b + g / ((*v - *m * *m).sqrt() + 1e-6);
        -0.02f32 * *b + p
    });
    let options = RmsProp::options(0.02).weight_decay(0.1).momentum(0.9).centered(true).eps(1e-6);
    assert_eq!(bits(&trained(&mut options.init().unwrap())), bits(&full));
}

#[test]
fn adagrad_follows_its_written_order() {
    let plain = expected(0.0, |_, p, g, [s]| {
        *s += g * g;
        -0.01f32 * (g / (s.sqrt() + 1e-10)) + p
    });
    assert_eq!(bits(&trained(&mut Adagrad::new(0.01).unwrap())), bits(&plain));
    let full = expected(0.5, |t, p, g, [s]| {
        let g = 0.1f32 * p + g;
        *s += g * g;
        let rate = 0.02 / (1.0 + f64::from(t - 1) * 0.25);
        -rate as f32 * (g / (s.sqrt() + 1e-6)) + p
    });
    let options = Adagrad::options(0.02).weight_decay(0.1).lr_decay(0.25).eps(1e-6);
    let options = options.initial_accumulator_value(0.5);
    assert_eq!(bits(&trained(&mut options.init().unwrap())), bits(&full));
}

#[test]
fn adadelta_follows_its_written_order() {
    let rho = (0.9f32, (1.0 - 0.9f64) as f32);
    let full = expected(0.0, |_, p, g, [v, u]| {
        let g = 0.1f32 * p + g;
        *v = rho.0 * *v + rho.1 * (g * g);
        let d = (*u + 1e-6).sqrt() / (*v + 1e-6).sqrt() * g;
        *u = rho.0 * *u + rho.1 * (d * d);
        -0.5f32 * d + p
    });
    let mut optimizer = Adadelta::options(0.5).weight_decay(0.1).init().unwrap();
    assert_eq!(bits(&trained(&mut optimizer)), bits(&full));
}

#[test]
fn adamax_follows_its_written_order() {
    let full = expected(0.0, |t, p, g, [m, u]| {
        let g = 0.1f32 * p + g;
        *m = 0.9f32 * *m + (1.0 - 0.9f64) as f32 * g;
        *u = (0.999f32 * *u).max(g.abs() + 1e-8);
        (-0.1 / (1.0 - power(0.9, t))) as f32 * (*m / *u) + p
    });
    let mut optimizer = Adamax::options(0.1).weight_decay(0.1).init().unwrap();
    assert_eq!(bits(&trained(&mut optimizer)), bits(&full));
}

#[test]
fn radam_follows_its_written_order() {
    let full = expected(0.0, |t, p, g, [m, v]| {
        let p = p * (1.0 - 0.1 * 0.2f64) as f32;
        *m = 0.9f32 * *m + (1.0 - 0.9f64) as f32 * g;
        *v = 0.75f32 * *v + 0.25 * (g * g);
        let rate = -0.1 / (1.0 - power(0.9, t));
        // Step 8 is the first above 5.
        let length = 7.0 - 2.0 * f64::from(t) * power(0.75, t) / (1.0 - power(0.75, t));
        if length <= 5.0 {
            return rate as f32 * *m + p;
        }
        let r = (length - 4.0) * (length - 2.0) * 7.0 / (3.0 * 5.0 * length);
        let factor = r.sqrt() * (1.0 - power(0.75, t)).sqrt();
        (rate * factor) as f32 * (*m / (v.sqrt() + 1e-8)) + p
    });
    let options = RAdam::options(0.1).betas(0.9, 0.75).weight_decay(0.2);
    let mut optimizer = options.decoupled_weight_decay(true).init().unwrap();
    assert_eq!(bits(&trained(&mut optimizer)), bits(&full));
}

/// Returns `beta^t` as the contract defines it, for the few steps of these tests.
fn power(beta: f64, t: i32) -> f64 {
    let square = beta * beta;
    let fourth = square * square;
    match t {
        1 => beta,
        2 => square,
        3 => beta * square,
        4 => fourth,
        5 => beta * fourth,
        6 => square * fourth,
        7 => beta * square * fourth,
        8 => fourth * fourth,
        _ => panic!("step {t}"),
    }
}

#[test]
fn adam_follows_its_written_order_and_amsgrad_keeps_the_largest_square() {
    let moments = |g: f32, m: &mut f32, v: &mut f32| {
        *m = ((1.0 - 0.9f64) as f32).mul_add(g, 0.9 * *m);
        *v = ((1.0 - 0.999f64) as f32 * g).mul_add(g, 0.999 * *v);
    };
    let rate = |lr: f64, t| (-lr / (1.0 - power(0.9, t))) as f32;
    let root = |t| (1.0 - power(0.999, t)).sqrt();
    let plain = expected(0.0, |t, p, g, [m, v]| {
        moments(g, m, v);
        rate(0.1, t).mul_add(*m / (v.sqrt() / root(t) as f32 + 1e-8), p)
    });
    assert_eq!(bits(&trained(&mut Adam::new(0.1).unwrap())), bits(&plain));
    let ams = |keep: f32, decay: f32| {
        expected(0.0, move |t, p, g, [m, v, largest]| {
            let g = decay.mul_add(p, g);
            moments(g, m, v);
            *largest = largest.max(*v);
            let denominator = largest.sqrt() * (1.0 / root(t)) as f32 + 1e-8;
            rate(0.1, t) * (*m / denominator) + p * keep
        })
    };
    let adam = Adam::options(0.1).weight_decay(0.2).amsgrad(true);
    assert_eq!(bits(&trained(&mut adam.init().unwrap())), bits(&ams(1.0, 0.2)));
    let adamw = AdamW::options(0.1).amsgrad(true);
    let keep = (1.0 - 0.1 * 0.01f64) as f32;
    assert_eq!(bits(&trained(&mut adamw.init().unwrap())), bits(&ams(keep, 0.0)));
}

#[test]
fn sgd_follows_its_written_order() {
    let plain = expected(0.0, |_, p, g, []| (-0.1f32).mul_add(g, p));
    assert_eq!(bits(&trained(&mut Sgd::new(0.1).unwrap())), bits(&plain));
    let nesterov = expected(f32::NAN, |t, p, g, [v]| {
        let g = 0.01f32.mul_add(p, g);
        *v = if t == 1 { g } else { 1f32.mul_add(g, 0.9 * *v) };
        (-0.1f32).mul_add(0.9f32.mul_add(*v, g), p)
    });
    let options = Sgd::options(0.1).momentum(0.9).weight_decay(0.01).nesterov(true);
    assert_eq!(bits(&trained(&mut options.init().unwrap())), bits(&nesterov));
}
