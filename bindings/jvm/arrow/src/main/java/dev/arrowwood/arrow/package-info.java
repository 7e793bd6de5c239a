/** Datasets and tables of Arrowwood as readers and vectors of Arrow Java, and the reverse, without copying. */
package dev.arrowwood.arrow;
