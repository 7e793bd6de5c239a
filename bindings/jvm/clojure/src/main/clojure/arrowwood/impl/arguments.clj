(ns arrowwood.impl.arguments
  "Checks arguments, and prints them for messages."
  {:no-doc true}
  (:require
   [clojure.string :as str])
  (:import
   (clojure.lang PersistentHashMap PersistentHashSet)
   (dev.arrowwood ArrowwoodException$InvalidArgument)
   (java.util HashMap HashSet LinkedHashMap LinkedHashSet)))

(set! *warn-on-reflection* true)

(def ^:private max-characters 200)

(defn printable
  "Prints a value for a message: only its beginning if it is large or infinite."
  ^String [x]
  (let [^String text (try
                       (binding [*print-length* 8 *print-level* 4 *print-dup* false *print-meta* false]
                         (pr-str x))
                       ;; Realizing a lazy value may fail.
                       (catch Exception _ (str "a value of " (class x))))]
    (if (< (long max-characters) (count text)) (str (subs text 0 max-characters) " …") text)))

(defn invalid-argument
  "Returns the exception for an invalid argument."
  ^ArrowwoodException$InvalidArgument [& words]
  (ArrowwoodException$InvalidArgument. (str/join words)))

(defn- distance
  "Returns the Levenshtein distance of two texts."
  ^long [text other]
  (let [next-row (fn [row letter]
                   (reductions (fn [left [above-left above other-letter]]
                                 (min (inc (long left))
                                      (inc (long above))
                                      (+ (long above-left) (if (= letter other-letter) 0 1))))
                               (inc (long (first row)))
                               (map vector row (rest row) other)))
        first-row (range (inc (count other)))]
    (long (last (reduce next-row first-row text)))))

(defn nearest
  "Returns the keyword that is most like a key."
  [key keywords]
  (let [normalized #(str/replace (str/lower-case (str %)) #"[:_]" {":" "" "_" "-"})
        prefix (let [^String text (normalized (printable key))] (subs text 0 (min 40 (count text))))]
    (first (sort-by (fn [candidate]
                      (let [text (normalized candidate)]
                        [(if (str/starts-with? text prefix) 0 1) (distance prefix text)]))
                    keywords))))

(defn checked-options
  "Returns a map of options, or nil, after checking its keys. `owner` names the function in messages, as in
  \"aggregate\"."
  [owner keys options]
  (when-not (or (nil? options) (map? options))
    (throw (invalid-argument owner " takes options as a map, such as {" (first keys) " …}, not "
             (printable options))))
  (doseq [key (clojure.core/keys options)]
    (when-not (some #(= key %) keys)
      (throw (invalid-argument owner " has no option " (printable key) ", perhaps it is " (nearest key keys)
               "; there are " (str/join ", " keys)))))
  options)

(defn in-order
  "Returns a collection, but refuses hash maps and sets, which have no order. `owner` needs the order, as in \"a
  schema\"."
  [owner coll]
  (let [hash-map? (or (instance? PersistentHashMap coll)
                      (and (instance? HashMap coll) (not (instance? LinkedHashMap coll))))
        hash-set? (or (instance? PersistentHashSet coll)
                      (and (instance? HashSet coll) (not (instance? LinkedHashSet coll))))]
    (when (and (or hash-map? hash-set?) (< 1 (count coll)))
      (throw (if hash-map?
               (invalid-argument owner " has an order, and a map of " (count coll)
                 " has none: give a vector of pairs, ["
                 (printable (let [entry (first coll)] [(key entry) (val entry)])) " …]")
               (invalid-argument owner " has an order, and a set of " (count coll) " has none: give a vector, ["
                 (printable (first coll)) " …]"))))
    coll))
