/** Arrow data of any size opened in place, and Arrow files that grow. */
module dev.arrowwood {
    exports dev.arrowwood;
    exports dev.arrowwood.types;
}
