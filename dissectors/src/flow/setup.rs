//! setup
#[derive(Debug)]
pub(super) struct SetUps;
impl SetUps {
    pub(super) fn new(_: usize) -> Self {
        Self
    }
}
