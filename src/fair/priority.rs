//! The order inside one tenant's lane.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// Which of one tenant's jobs go first: higher before lower, equal ones in order of arrival.
///
/// A priority never reaches across tenants; how often a tenant is served is its [`Weight`]'s matter.
///
/// ```
/// use fairlane::Priority;
///
/// assert!(Priority::HIGH > Priority::NORMAL && Priority::NORMAL > Priority::LOW);
/// assert_eq!(Priority::default(), Priority::NORMAL);
/// assert_eq!(Priority::from(7).to_string(), "7");
/// assert_eq!("-10".parse(), Ok(Priority::LOW));
/// ```
///
/// [`Weight`]: crate::Weight
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Priority(
    /// The rank itself; any value is allowed, the constants are only names for three of them.
    pub i32,
);

impl Priority {
    /// −10: work that may wait behind everything else of its tenant.
    pub const LOW: Priority = Priority(-10);
    /// 0: the default.
    pub const NORMAL: Priority = Priority(0);
    /// 10: work that goes ahead of everything else of its tenant.
    pub const HIGH: Priority = Priority(10);
}

impl From<i32> for Priority {
    fn from(value: i32) -> Priority {
        Priority(value)
    }
}

impl FromStr for Priority {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Priority, ParseIntError> {
        text.parse().map(Priority)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
