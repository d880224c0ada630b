// Written by `cargo xtask build-kernels` from kernels/recurrent.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;

pub(crate) const FAMILY: Family =
    Family { name: "recurrent", ptx: include_str!("../../../ptx/recurrent.ptx") };

kernels! {
    Portable LstmCell<T: Float> [f32 => "lstm_cell_f32", f64 => "lstm_cell_f64"]
        (
            write hidden: T, write next_cell: T, write activations: T, read x: T, read h: T,
            read bias: T, read cell: T, value n: usize, value size: usize, value biased: u32,
        );
    Portable LstmCellGrad<T: Float> [f32 => "lstm_cell_grad_f32", f64 => "lstm_cell_grad_f64"]
        (
            write grad_gates: T, write grad_previous: T, read grad_hidden: T, read grad_cell: T,
            read activations: T, read cell: T, read next_cell: T, value n: usize, value size: usize,
        );
    Portable GruCell<T: Float> [f32 => "gru_cell_f32", f64 => "gru_cell_f64"]
        (
            write next: T, write activations: T, read x: T, read h: T, read bias_x: T,
            read bias_h: T, read hidden: T, value n: usize, value size: usize, value biased: u32,
        );
    Portable GruCellGrad<T: Float> [f32 => "gru_cell_grad_f32", f64 => "gru_cell_grad_f64"]
        (
            write grad_x: T, write grad_h: T, write grad_previous: T, read grad: T,
            read activations: T, read hidden: T, value n: usize, value size: usize,
        );
}
