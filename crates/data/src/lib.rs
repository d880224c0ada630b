//! A data loader that reseeds each worker and gives the same batches for any number of workers.
