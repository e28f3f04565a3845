//! stub
#![allow(missing_docs)]
pub mod statistics {
    #[derive(Default)]
    pub struct Statistics;
    impl Statistics {
        pub fn frame(&mut self, _: &nfsrdma_dissectors::frame::Frame<'_>) {}
        pub fn transaction(
            &mut self,
            _: &nfsrdma_dissectors::flow::Transaction,
            _: &nfsrdma_dissectors::flow::reading::Facts,
        ) {
        }
    }
}
