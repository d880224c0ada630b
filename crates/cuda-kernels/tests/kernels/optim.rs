//! Optimiser steps.

use crate::data::{Source, clean, same};
use crate::device::{on_device, under_schedules};
use samebits_cuda_kernels::elementwise::{Narrow, cast, narrow, widen};
use samebits_cuda_kernels::optim::{
    Adam, Sgd, adam_step, adam_step_all, cast_all, sgd_step, sgd_step_all,
};
use samebits_cuda_kernels::{Buffer, Device};
use samebits_tensor_core::{bf16, f16};

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

/// The lengths of the parameters that step together: of a block of any size, less, and more than two.
const LENGTHS: [usize; 6] = [300, 1, 16 * 512, 7, 2 * 16 * 512 + 5, 4099];

#[test]
fn parameters_step_together_as_each_alone() {
    let sgd = Sgd { lr: 0.1, momentum: 0.9, dampening: 0.25, weight_decay: 0.01, nesterov: true };
    let adam =
        Adam { lr: 0.01, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.05, decoupled: true };
    under_schedules(|device| {
        // The work of another stream, which must be awaited, makes some of the buffers.
        let other = device.with_new_stream().unwrap();
        let mut source = Source::new(3);
        let mut make = |squared: bool| -> Vec<_> {
            let devices = LENGTHS.iter().zip([device, &other].into_iter().cycle());
            devices
                .map(|(&n, device)| {
                    let x = source.plain(n);
                    let x = if squared { x.iter().map(|x| x * x).collect() } else { x };
                    device.duplicate(&device.upload(&x).unwrap()).unwrap()
                })
                .collect()
        };
        let [param, grad, mean, square] = [false, false, false, true].map(&mut make);
        // Some have no velocity yet.
        let velocity = |k: usize| (!k.is_multiple_of(3)).then_some(&mean[k]);
        let all: Vec<_> = (0..LENGTHS.len()).map(|k| (&param[k], velocity(k), &grad[k])).collect();
        for settings in [sgd, Sgd { momentum: 0.0, nesterov: false, ..sgd }] {
            let together = sgd_step_all(device, &settings, &all).unwrap();
            for (new, &(param, velocity, grad)) in together.iter().zip(&all) {
                let (p, v) = sgd_step(device, &settings, param, velocity, grad).unwrap();
                same("parameter", &device.download(&new.0).unwrap(), &device.download(&p).unwrap());
                assert_eq!(new.1.is_some(), v.is_some());
                if let (Some(new), Some(v)) = (&new.1, v) {
                    same("velocity", &device.download(new).unwrap(), &device.download(&v).unwrap());
                }
            }
        }
        let all: Vec<_> =
            (0..LENGTHS.len()).map(|k| [&param[k], &mean[k], &square[k], &grad[k]]).collect();
        let together = adam_step_all(device, &adam, 3, &all).unwrap();
        for (new, [param, mean, square, grad]) in together.iter().zip(all) {
            let old = [param, mean, square];
            let alone = adam_step(device, &adam, 3, old, grad).unwrap();
            for (what, (new, alone)) in
                ["parameter", "mean", "square"].iter().zip(new.iter().zip(&alone))
            {
                same(what, &device.download(new).unwrap(), &device.download(alone).unwrap());
            }
        }
    });
}

#[test]
fn parameters_that_do_not_match_are_refused() {
    on_device(|device| {
        let (x, y) = (device.zeros::<f32>(3).unwrap(), device.zeros::<f32>(4).unwrap());
        let settings =
            Sgd { lr: 0.1, momentum: 0.9, dampening: 0.0, weight_decay: 0.0, nesterov: false };
        let error = sgd_step_all(device, &settings, &[(&x, None, &x), (&x, None, &y)]).unwrap_err();
        assert_eq!(error.to_string(), "sgd_step: expected the gradient with 3 elements, got 4");
        assert!(sgd_step_all::<f32>(device, &settings, &[]).unwrap().is_empty());
    });
}

#[test]
fn casts_together_are_those_of_each_alone() {
    fn check<H: Narrow<Wide = f32> + std::fmt::Debug + PartialEq>(device: &Device) {
        let mut source = Source::new(4);
        let wide: Vec<_> =
            LENGTHS.iter().map(|&n| device.upload(&source.broken(n)).unwrap()).collect();
        let halves: Vec<Buffer<H>> = cast_all(device, &wide.iter().collect::<Vec<_>>()).unwrap();
        let again: Vec<Buffer<f32>> = cast_all(device, &halves.iter().collect::<Vec<_>>()).unwrap();
        for ((x, half), again) in wide.iter().zip(&halves).zip(&again) {
            let alone = narrow::<f64, H>(device, &cast(device, x).unwrap()).unwrap();
            let bytes = |half| -> Vec<u8> {
                bytemuck::cast_slice(&device.download::<H>(half).unwrap()).to_vec()
            };
            assert!(bytes(half) == bytes(&alone));
            let alone = device.download(&widen(device, half).unwrap()).unwrap();
            same("in f32", &device.download(again).unwrap(), &alone);
        }
    }
    under_schedules(|device| {
        check::<f16>(device);
        check::<bf16>(device);
    });
}
