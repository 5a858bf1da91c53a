//! How large a tenant's share is.

use std::fmt;
use std::num::{NonZeroU32, ParseIntError};
use std::str::FromStr;

/// A tenant's share of the turns, relative to the weights of the other tenants.
///
/// Only ratios matter: weights 1 and 3 give the same order as 100 and 300. The range is
/// `1..=u32::MAX`; there is no weight of zero, since a tenant that is never served would be a leak.
///
/// ```
/// use fairlane::Weight;
///
/// assert_eq!(Weight::default(), Weight::new(1));
/// assert_eq!(Weight::try_from(3), Ok(Weight::new(3)));
/// assert!(Weight::try_from(0).is_err());
/// assert_eq!(Weight::new(3).to_string(), "3");
/// assert_eq!("3".parse(), Ok(Weight::new(3)));
/// assert!("0".parse::<Weight>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Weight(NonZeroU32);

impl Weight {
    /// The least weight, and the default.
    pub const MIN: Weight = Weight(NonZeroU32::MIN);
    /// The largest weight.
    pub const MAX: Weight = Weight(NonZeroU32::MAX);

    /// A weight of `value`.
    ///
    /// # Panics
    ///
    /// If `value` is 0; in a constant that is a compile-time error. [`Weight::try_from`] reports it
    /// as an error instead.
    #[must_use]
    pub const fn new(value: u32) -> Weight {
        match NonZeroU32::new(value) {
            Some(value) => Weight(value),
            None => panic!("a weight must be at least 1"),
        }
    }

    /// The weight as a number, never 0.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl Default for Weight {
    fn default() -> Weight {
        Weight::MIN
    }
}

impl From<NonZeroU32> for Weight {
    fn from(value: NonZeroU32) -> Weight {
        Weight(value)
    }
}

impl From<Weight> for NonZeroU32 {
    fn from(weight: Weight) -> NonZeroU32 {
        weight.0
    }
}

impl From<Weight> for u32 {
    fn from(weight: Weight) -> u32 {
        weight.get()
    }
}

impl TryFrom<u32> for Weight {
    type Error = std::num::TryFromIntError;

    /// Fails on 0 alone.
    fn try_from(value: u32) -> Result<Weight, Self::Error> {
        NonZeroU32::try_from(value).map(Weight)
    }
}

impl FromStr for Weight {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Weight, ParseIntError> {
        text.parse().map(Weight)
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
