// SPDX-License-Identifier: Apache-2.0
use crate::{ParseError, scale, split_number};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// A size in bytes. Written `512M`, `2G`, `16KiB`, `4096`; printed in KiB/MiB/GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl Bytes {
    pub const KIB: u64 = 1 << 10;
    pub const MIB: u64 = 1 << 20;
    pub const GIB: u64 = 1 << 30;
    pub const TIB: u64 = 1 << 40;

    pub const fn mib(n: u64) -> Self {
        Self(n * Self::MIB)
    }

    pub const fn gib(n: u64) -> Self {
        Self(n * Self::GIB)
    }
}

impl FromStr for Bytes {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let refused = || ParseError::Bytes(text.to_owned());
        let (number, unit) = split_number(text);
        if number.is_empty() {
            return Err(refused());
        }
        let factor = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" | "kib" => Self::KIB,
            "m" | "mb" | "mib" => Self::MIB,
            "g" | "gb" | "gib" => Self::GIB,
            "t" | "tb" | "tib" => Self::TIB,
            _ => return Err(refused()),
        };
        number.parse::<f64>().map_err(|_| refused())?;
        scale(number, factor).map(Bytes).ok_or_else(|| ParseError::TooLarge(text.to_owned()))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(Self::TIB, "TiB"), (Self::GIB, "GiB"), (Self::MIB, "MiB"), (Self::KIB, "KiB")];
        for (factor, name) in units {
            if self.0 >= factor {
                let text = if self.0.is_multiple_of(factor) {
                    format!("{} {name}", self.0 / factor)
                } else {
                    format!("{:.2} {name}", self.0 as f64 / factor as f64)
                };
                return f.pad(&text);
            }
        }
        f.pad(&format!("{} B", self.0))
    }
}

/// A change or a balance in bytes: `-4 KiB`, `0 B`, `2 MiB`; with `{:+}` a growth has its sign, too: `+2 MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SignedBytes(pub i128);

impl fmt::Display for SignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.0.signum() {
            -1 => "-",
            1 if f.sign_plus() => "+",
            _ => "",
        };
        let size = Bytes(u64::try_from(self.0.unsigned_abs()).unwrap_or(u64::MAX));
        f.pad(&format!("{sign}{size}"))
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Bytes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"512M\" or \"2G\"")
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Bytes, E> {
                Ok(Bytes(value))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Bytes, E> {
                u64::try_from(value).map(Bytes).map_err(|_| E::custom("a size cannot be negative"))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_signed_size_has_a_plus_only_where_it_is_asked_for() {
        let both = |bytes: i128| (SignedBytes(bytes).to_string(), format!("{:+}", SignedBytes(bytes)));
        let pair = |plain: &str, signed: &str| (plain.to_owned(), signed.to_owned());
        assert_eq!(both(0), pair("0 B", "0 B"));
        assert_eq!(both(-4096), pair("-4 KiB", "-4 KiB"));
        assert_eq!(both(2 << 20), pair("2 MiB", "+2 MiB"));
        assert_eq!(format!("{:>7}", SignedBytes(-1)), "   -1 B");
    }

    #[test]
    fn written_forms_are_powers_of_1024() {
        for (text, bytes) in
            [("4096", 4096), ("16K", 16 << 10), ("16KiB", 16 << 10), ("1.5G", 3 << 29), ("2 GiB", 2 << 30), ("0", 0)]
        {
            assert_eq!(text.parse::<Bytes>(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for text in ["", "G", "12Q", "-1G", "1.2.3M", "ten"] {
            assert!(text.parse::<Bytes>().unwrap_err().to_string().contains(text), "{text}");
        }
        assert_eq!("99999999999T".parse::<Bytes>(), Err(ParseError::TooLarge("99999999999T".into())));
    }

    #[test]
    fn printed_in_binary_units() {
        assert_eq!(Bytes::gib(2).to_string(), "2 GiB");
        assert_eq!(Bytes(1536 << 20).to_string(), "1.50 GiB");
        assert_eq!(Bytes(12).to_string(), "12 B");
    }

    proptest! {
        #[test]
        fn printing_loses_less_than_a_hundredth(n in 0u64..1_000_000, unit in prop::sample::select(vec!["KiB", "MiB", "GiB"])) {
            let parsed: Bytes = format!("{n}{unit}").parse().unwrap();
            // a printed fraction keeps two decimals
            prop_assert!(parsed.to_string().parse::<Bytes>().unwrap().0.abs_diff(parsed.0) as f64 <= parsed.0 as f64 * 0.006);
        }
    }
}
