//! JSON maps without duplicate keys; `serde_json` alone keeps the last of duplicate keys.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Reads a map, and rejects duplicate keys.
pub(crate) fn map<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    from.deserialize_map(Map(PhantomData))
}

/// Reads a map of [`Strict`] values, and rejects duplicate keys.
pub(crate) fn values<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, Value>, D::Error> {
    let all: BTreeMap<String, Strict> = map(from)?;
    Ok(all.into_iter().map(|(key, Strict(value))| (key, value)).collect())
}

/// Reads a value, and rejects duplicate keys at any depth.
pub(crate) fn value<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    Strict::deserialize(from).map(|Strict(value)| value)
}

/// Reads as [`value()`] does, or `null`.
pub(crate) fn option<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Ok(Some(value(from)?).filter(|value| !value.is_null()))
}

struct Map<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Map<T> {
    type Value = BTreeMap<String, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut map = BTreeMap::new();
        while let Some(key) = access.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!("duplicate key `{key}`")));
            }
            map.insert(key, access.next_value()?);
        }
        Ok(map)
    }
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Strict, D::Error> {
        from.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Strict(value)) = access.next_element()? {
            all.push(value);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<Value, A::Error> {
        let map = Map(PhantomData).visit_map(access)?;
        Ok(Value::Object(map.into_iter().map(|(key, Strict(value))| (key, value)).collect()))
    }
}
