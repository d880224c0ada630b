//! Parquet files for tests.

use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DoubleType, FloatType, Int32Type, Int64Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

/// Writes a file with row groups of these sizes. Row *i* of the file has `id` = *i*, `small` = !*i*
/// in 32 bits, `x` = *i* / 2, `y` = -*i* / 3, `text` = *i* letters `a` (null in every third row),
/// and `even`.
pub(crate) fn file(groups: &[usize], packed: bool) -> Vec<u8> {
    let schema = "message points {
        required int64 id;
        required int32 small (integer(32, false));
        required float x;
        required group at { required double y; }
        optional binary text (utf8);
        required boolean even;
    }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let codec = if packed { Compression::SNAPPY } else { Compression::UNCOMPRESSED };
    let properties = WriterProperties::builder()
        .set_compression(codec)
        .set_data_page_row_count_limit(4)
        .set_write_batch_size(2)
        .build();
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
    let mut first = 0;
    for &rows in groups {
        let all = first..first + rows as i64;
        first = all.end;
        let mut group = writer.next_row_group().unwrap();
        macro_rules! column {
            ($type:ty, $values:expr, $levels:expr) => {
                let mut column = group.next_column().unwrap().unwrap();
                column.typed::<$type>().write_batch(&$values, $levels, None).unwrap();
                column.close().unwrap();
            };
        }
        let values = || all.clone();
        column!(Int64Type, values().collect::<Vec<_>>(), None);
        column!(Int32Type, values().map(|i| -1 - i as i32).collect::<Vec<_>>(), None);
        column!(FloatType, values().map(|i| i as f32 / 2.0).collect::<Vec<_>>(), None);
        column!(DoubleType, values().map(|i| -i as f64 / 3.0).collect::<Vec<_>>(), None);
        let there = |i: &i64| i % 3 != 0;
        let texts = values().filter(there).map(|i| ByteArray::from(&*"a".repeat(i as usize)));
        let levels: Vec<i16> = values().map(|i| i16::from(there(&i))).collect();
        column!(ByteArrayType, texts.collect::<Vec<_>>(), Some(&levels));
        column!(BoolType, values().map(|i| i % 2 == 0).collect::<Vec<_>>(), None);
        group.close().unwrap();
    }
    writer.close().unwrap();
    bytes
}
