//! Optimiser steps.

use crate::data::{Source, clean, same};
use crate::device::under_schedules;
use samebits_cuda_kernels::optim::{Adam, Sgd, adam_step, sgd_step};

#[test]
fn sgd() {
    under_schedules(|device| {
        for (momentum, decay, nesterov) in
            [(0.0, 0.0, false), (0.9, 0.01, false), (0.9, 0.0, true), (0.0, 0.1, true)]
        {
            let settings = Sgd {
                lr: 0.1,
                momentum,
                dampening: 0.25,
                weight_decay: decay,
                nesterov: nesterov && momentum != 0.0,
            };
            let mut source = Source::new(1);
            let (mut p, grad) = (source.plain(300), source.wild(300));
            let mut v = vec![f32::NAN; 300];
            let (mut p_dev, g_dev) = (device.upload(&p).unwrap(), device.upload(&grad).unwrap());
            let mut v_dev = None;
            for step in 0..3 {
                (p_dev, v_dev) =
                    sgd_step(device, &settings, &p_dev, v_dev.as_ref(), &g_dev).unwrap();
                for i in 0..300 {
                    let g =
                        if decay != 0.0 { (decay as f32).mul_add(p[i], grad[i]) } else { grad[i] };
                    let kept = momentum != 0.0 && step > 0;
                    v[i] = clean(if kept { 0.75f32.mul_add(g, momentum as f32 * v[i]) } else { g });
                    let d =
                        if settings.nesterov { (momentum as f32).mul_add(v[i], g) } else { v[i] };
                    p[i] = clean((-0.1f32).mul_add(d, p[i]));
                }
            }
            same("parameter", &device.download(&p_dev).unwrap(), &p);
            assert_eq!(v_dev.is_some(), momentum != 0.0);
            if let Some(v_dev) = v_dev {
                same("velocity", &device.download(&v_dev).unwrap(), &v);
            }
        }
    });
}

#[test]
fn adam() {
    under_schedules(|device| {
        for decoupled in [false, true] {
            let settings = Adam {
                lr: 0.01,
                beta1: 0.9,
                beta2: 0.999,
                eps: 1e-8,
                weight_decay: 0.05,
                decoupled,
            };
            let mut source = Source::new(2);
            let (mut p, grad) = (source.plain(300), source.plain(300));
            let (mut m, mut v) = (vec![0.0f32; 300], vec![0.0f32; 300]);
            let upload = |x: &[f32]| device.upload(x).unwrap();
            let (mut p_dev, mut m_dev, mut v_dev) = (upload(&p), upload(&m), upload(&v));
            let g_dev = upload(&grad);
            let (mut power1, mut power2) = (1.0f64, 1.0f64);
            for step in 1..=3u64 {
                let old = [&p_dev, &m_dev, &v_dev];
                [p_dev, m_dev, v_dev] = adam_step(device, &settings, step, old, &g_dev).unwrap();
                (power1, power2) = (power1 * 0.9, power2 * 0.999);
                let keep = if decoupled { (1.0 - 0.01 * 0.05) as f32 } else { 1.0 };
                let decay = if decoupled { 0.0f32 } else { 0.05 };
                let root = (1.0 - power2).sqrt() as f32;
                let rate = (-0.01 / (1.0 - power1)) as f32;
                for i in 0..300 {
                    let g = decay.mul_add(p[i], grad[i]);
                    let (f1, f2) = ((1.0f64 - 0.9) as f32, (1.0f64 - 0.999) as f32);
                    m[i] = f1.mul_add(g, 0.9f32 * m[i]);
                    v[i] = (f2 * g).mul_add(g, 0.999f32 * v[i]);
                    let step = m[i] / (v[i].sqrt() / root + 1e-8);
                    p[i] = clean(rate.mul_add(step, p[i] * keep));
                }
            }
            same("parameter", &device.download(&p_dev).unwrap(), &p);
            same("mean", &device.download(&m_dev).unwrap(), &m);
            same("square", &device.download(&v_dev).unwrap(), &v);
        }
    });
}
