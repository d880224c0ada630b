//! Cells of recurrent networks, elementwise.

use crate::data::Source;
use crate::device::under_schedules;
use crate::numbers::{Number, all_bits, mixed, same_bits};
use samebits_cuda_kernels::recurrent::{self, Gates};
use samebits_cuda_kernels::{Buffer, Device};

/// (rows, units), including more than a block.
const SHAPES: [[usize; 2]; 4] = [[0, 3], [1, 1], [5, 37], [3, 130]];

fn upload<T: Number>(device: &Device, x: &[T]) -> Buffer<T> {
    device.upload(x).unwrap()
}

fn download<T: Number>(device: &Device, x: &Buffer<T>, n: usize) -> Vec<T> {
    let mut x = device.download(x).unwrap();
    x.truncate(n);
    x
}

fn lstm<T: Number>(device: &Device) -> Vec<u64> {
    let mut all = Vec::new();
    for ([n, size], broken, biased) in cases() {
        let what = format!("lstm {n} {size} {broken} {biased}");
        let mut source = Source::new((n * size) as u64);
        let mut make = |count: usize| mixed::<T>(&mut source, broken, count);
        let (x, h, bias) = (make(n * 4 * size), make(n * 4 * size), make(4 * size));
        let (cell, grad_hidden, grad_cell) = (make(n * size), make(n * size), make(n * size));
        let mut activations = vec![T::ONE; n * 4 * size];
        let (mut next, mut hidden) = (cell.clone(), cell.clone());
        let (mut grad_gates, mut previous) = (activations.clone(), cell.clone());
        for at in 0..n * size {
            let place = |gate: usize| (at / size * 4 + gate) * size + at % size;
            let sum = |gate: usize| {
                let x = x[place(gate)];
                let x = if biased { x + bias[gate * size + at % size] } else { x };
                x + h[place(gate)]
            };
            let (i, f, o) = (sum(0).sigmoid(), sum(1).sigmoid(), sum(3).sigmoid());
            let g = sum(2).tanh();
            for (gate, value) in [i, f, g, o].into_iter().enumerate() {
                activations[place(gate)] = value;
            }
            next[at] = f.fma(cell[at], i * g).canonical();
            let t = next[at].tanh();
            hidden[at] = (o * t).canonical();
            let one = T::ONE;
            let d = (grad_hidden[at] * o).fma(one - t * t, grad_cell[at]);
            let grads = [
                (d * g) * ((one - i) * i),
                (d * cell[at]) * ((one - f) * f),
                (d * i) * (one - g * g),
                (grad_hidden[at] * t) * ((one - o) * o),
            ];
            for (gate, grad) in grads.into_iter().enumerate() {
                grad_gates[place(gate)] = grad.canonical();
            }
            previous[at] = (d * f).canonical();
        }
        let [x, h, bias, cell] = [x, h, bias, cell].map(|x| upload(device, &x));
        let gates = Gates { x: &x, h: &h, bias_x: biased.then_some(&bias), bias_h: None };
        let (got_hidden, got_next, got) =
            recurrent::lstm_cell(device, [n, size], gates, &cell).unwrap();
        let [grad_hidden, grad_cell] = [grad_hidden, grad_cell].map(|x| upload(device, &x));
        let (got_gates, got_previous) = recurrent::lstm_cell_grad(
            device,
            [n, size],
            [&grad_hidden, &grad_cell],
            &got,
            [&cell, &got_next],
        )
        .unwrap();
        for (part, got, expected) in [
            ("hidden", &got_hidden, hidden),
            ("cell", &got_next, next),
            ("activations", &got, activations),
            ("gates", &got_gates, grad_gates),
            ("previous", &got_previous, previous),
        ] {
            let got = download(device, got, expected.len());
            same_bits(&format!("{what} {part}"), &got, &expected);
            all.extend(all_bits(&got));
        }
    }
    all
}

fn gru<T: Number>(device: &Device) -> Vec<u64> {
    let mut all = Vec::new();
    for ([n, size], broken, biased) in cases() {
        let what = format!("gru {n} {size} {broken} {biased}");
        let mut source = Source::new((n * size) as u64 + 7);
        let mut make = |count: usize| mixed::<T>(&mut source, broken, count);
        let (x, h) = (make(n * 3 * size), make(n * 3 * size));
        let (bias_x, bias_h) = (make(3 * size), make(3 * size));
        let (hidden, grad) = (make(n * size), make(n * size));
        let mut activations = vec![T::ONE; n * 4 * size];
        let (mut next, mut previous) = (hidden.clone(), hidden.clone());
        let (mut grad_x, mut grad_h) = (x.clone(), h.clone());
        for at in 0..n * size {
            let place = |gate: usize| (at / size * 3 + gate) * size + at % size;
            let with = |gates: &[T], bias: &[T], biased: bool, gate: usize| {
                let value = gates[place(gate)];
                if biased { value + bias[gate * size + at % size] } else { value }
            };
            // Only the second bias, so that the two are distinguished.
            let of_x = |gate: usize| with(&x, &bias_x, biased, gate);
            let of_h = |gate: usize| with(&h, &bias_h, true, gate);
            let r = (of_x(0) + of_h(0)).sigmoid();
            let z = (of_x(1) + of_h(1)).sigmoid();
            let y = r.fma(of_h(2), of_x(2)).tanh();
            let kept = of_h(2).canonical();
            for (part, value) in [r, z, y, kept].into_iter().enumerate() {
                activations[(at / size * 4 + part) * size + at % size] = value;
            }
            next[at] = z.fma(hidden[at] - y, y).canonical();
            let one = T::ONE;
            let d = (grad[at] * (one - z)) * (one - y * y);
            let to_z = (grad[at] * (hidden[at] - y)) * ((one - z) * z);
            let to_r = (d * kept) * ((one - r) * r);
            let parts = [[to_r, to_r], [to_z, to_z], [d, d * r]];
            for (gate, [to_x, to_h]) in parts.into_iter().enumerate() {
                grad_x[place(gate)] = to_x.canonical();
                grad_h[place(gate)] = to_h.canonical();
            }
            previous[at] = (grad[at] * z).canonical();
        }
        let [x, h, bias_x, bias_h] = [x, h, bias_x, bias_h].map(|x| upload(device, &x));
        let gates =
            Gates { x: &x, h: &h, bias_x: biased.then_some(&bias_x), bias_h: Some(&bias_h) };
        let [hidden, grad] = [hidden, grad].map(|x| upload(device, &x));
        let (got_next, got) = recurrent::gru_cell(device, [n, size], gates, &hidden).unwrap();
        let (got_x, got_h, got_previous) =
            recurrent::gru_cell_grad(device, [n, size], &grad, &got, &hidden).unwrap();
        for (part, got, expected) in [
            ("hidden", &got_next, next),
            ("activations", &got, activations),
            ("gates of the input", &got_x, grad_x),
            ("gates of the hidden state", &got_h, grad_h),
            ("previous", &got_previous, previous),
        ] {
            let got = download(device, got, expected.len());
            same_bits(&format!("{what} {part}"), &got, &expected);
            all.extend(all_bits(&got));
        }
    }
    all
}

/// Returns every shape, with ordinary and with broken numbers, with and without a bias.
fn cases() -> impl Iterator<Item = ([usize; 2], bool, bool)> {
    SHAPES.into_iter().flat_map(|shape| {
        [(false, false), (false, true), (true, true)]
            .map(|(broken, biased)| (shape, broken, biased))
    })
}

#[test]
fn lstm_cells() {
    under_schedules(|device| (lstm::<f32>(device), lstm::<f64>(device)));
}

#[test]
fn gru_cells() {
    under_schedules(|device| (gru::<f32>(device), gru::<f64>(device)));
}

#[test]
fn wrong_lengths_are_refused() {
    crate::device::on_device(|device| {
        let (gates, cell) = (upload(device, &[0.0f32; 8]), upload(device, &[0.0f32; 3]));
        let gates = Gates { x: &gates, h: &gates, bias_x: None, bias_h: None };
        let error = recurrent::lstm_cell(device, [1, 2], gates, &cell).unwrap_err().to_string();
        assert_eq!(error, "lstm_cell: expected the cell with 2 elements, got 3");
    });
}
