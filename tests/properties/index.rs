use proptest::prelude::*;
use samebits::functional as f;
use samebits::{DType, Error, Tensor, Var};
use workspace_tests::normal_of;

use super::{cases, shape};

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn index_select_is_right_or_an_error(
        shape in shape(4),
        dim in 0usize..5,
        index in proptest::collection::vec(-1i64..6, 0..5),
    ) {
        let x = normal_of(&shape, DType::F64, 1);
        let index = Tensor::from_slice(&index, &[index.len()]).unwrap();
        let chosen = index.to_vec::<i64>().unwrap();
        let result = f::index_select(&Var::constant(x.clone()), dim, &index);
        let size = shape.get(dim).copied();
        let inside = |&i: &i64| size.is_some_and(|size| (0..size as i64).contains(&i));
        if size.is_none() {
            prop_assert!(result.is_err());
        } else if let Some(position) = chosen.iter().position(|i| !inside(i)) {
            let is_index_error = matches!(
                result,
                Err(Error::IndexOutOfRange { position: at, .. }) if at == position
            );
            prop_assert!(is_index_error);
        } else {
            let result = result.unwrap();
            for (to, &from) in chosen.iter().enumerate() {
                let (to, from) = (result.value().select(dim, to), x.select(dim, from as usize));
                prop_assert_eq!(to.unwrap().to_bytes(), from.unwrap().to_bytes());
            }
        }
    }
}
